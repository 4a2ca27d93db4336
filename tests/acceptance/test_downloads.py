"""Programs of their own download from a real server: killed, two at once, and gone on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.files.catalogue import load
from engine.files.model_files import Store
from tests.helpers.servers import CONTENT, PLACE, Fault, FaultyServer, faulty_server, published

COMMAND = [sys.executable, "-m", "engine", "models", "download", "tiny", "--only"]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with faulty_server() as server:
        server.files[PLACE] = CONTENT
        yield server


@pytest.fixture
def store(tmp_path: Path, server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The programs read a catalogue with one file on the server."""
    file = published(about_bytes=100)
    lines = [
        "[hosts]",
        f'loopback = "{server.url}/{{repository}}/{{revision}}/{{filename}}"',
        "[[files]]",
        f"models = {list(file.models)}",
    ]
    words = ("id", "title", "kind", "precision", "repository", "filename")
    lines += [f'{name} = "{getattr(file, name)}"' for name in (*words, "sha256", "licence", "host")]
    catalogue = tmp_path / "catalogue.toml"
    catalogue.write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setenv("UPREEL_RESOURCES", str(tmp_path))
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path / "models"))
    return Store(tmp_path / "models", files=load(catalogue))


def start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        COMMAND, cwd=ROOT, env=os.environ, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )


def wait_for(store: Store, count: int) -> None:
    end = time.monotonic() + 30
    while store.state("tiny").done_bytes < count:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_killed_download_goes_on_in_another_program(server: FaultyServer, store: Store) -> None:
    server.faults = [Fault(stall_after=50_000)]
    first = start()
    wait_for(store, 50_000)
    assert store.state("tiny").state == "busy"
    second = start()
    _, error = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "error[weights-busy]" in error
    first.kill()
    first.communicate(timeout=60)
    assert store.state("tiny").state == "partial"
    third = start()
    out, error = third.communicate(timeout=60)
    assert third.returncode == 0, error
    assert "tiny is installed" in out
    assert server.ranges == ["", "bytes=50000-"]
    assert store.state("tiny").state == "here"
    assert store.ready("tiny").read_bytes() == CONTENT
