"""A catalogue with one tiny file on a loopback server, and a store that knows nothing else."""

from __future__ import annotations

import hashlib
from pathlib import Path

from engine.model_files.catalogue import ModelCatalogue, PublishedFile
from engine.model_files.store import Store
from tests.helpers.faulty_server import FaultyServer

CONTENT = bytes(range(256)) * 400  # 102,400 bytes
PLACE = "/some/body/main/tiny.safetensors"


def published(content: bytes = CONTENT, **changes: object) -> PublishedFile:
    """A file of a catalogue with one file."""
    values: dict[str, object] = {
        "id": "tiny",
        "title": "Tiny",
        "kind": "dit",
        "models": ("seedvr2-3b",),
        "precision": "fp16",
        "repository": "some/body",
        "filename": "tiny.safetensors",
        "sha256": hashlib.sha256(content).hexdigest(),
        "licence": "Apache-2.0",
        "host": "loopback",
    }
    return PublishedFile(**(values | changes))


def store_of(folder: Path, server: FaultyServer | None, *files: PublishedFile) -> Store:
    """A store of these files only; each is asked for at `server`."""
    url = server.url if server is not None else "http://127.0.0.1:9"
    hosts = {"loopback": url + "/{repository}/{revision}/{filename}"}
    return Store(folder, files=ModelCatalogue(hosts=hosts, files=files))
