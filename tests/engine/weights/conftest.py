from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.weights.catalogue import Catalogue, PublishedFile
from engine.weights.store import Store
from tests.helpers.faulty_server import FaultyServer, faulty_server

CONTENT = bytes(range(256)) * 400  # 102,400 bytes


def published(content: bytes = CONTENT, **changes: object) -> PublishedFile:
    """A file of a catalogue with one file, on the loopback server."""
    values: dict[str, object] = {
        "id": "tiny",
        "title": "Tiny",
        "kind": "dit",
        "models": ("tiny-model",),
        "precision": "fp16",
        "repository": "some/body",
        "filename": "tiny.safetensors",
        "sha256": hashlib.sha256(content).hexdigest(),
        "licence": "Apache-2.0",
        "host": "loopback",
        "revision": "main",
    }
    return PublishedFile(**(values | changes))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither this machine's models nor its proxies."""
    monkeypatch.setenv("UPREEL_COMFYUI", "")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for name in ("UPREEL_MIRROR", "HF_ENDPOINT", "UPREEL_MODELS", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with faulty_server() as server:
        server.files["/some/body/main/tiny.safetensors"] = CONTENT
        yield server


@pytest.fixture
def file() -> PublishedFile:
    return published()


@pytest.fixture
def store(tmp_path: Path, file: PublishedFile, server: FaultyServer) -> Store:
    return store_of(tmp_path / "models", file, server)


def store_of(folder: Path, file: PublishedFile, server: FaultyServer) -> Store:
    address = server.url + "/{repository}/{revision}/{filename}"
    return Store(folder, files=Catalogue(hosts={"loopback": address}, files=(file,)))
