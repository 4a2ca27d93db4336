import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.core import paths
from engine.farm import identity, pairing, pairing_port
from engine.files.catalogue import PublishedFile
from engine.files.model_files import Store
from tests.helpers.farm import Waiting, folder_of_thread
from tests.helpers.servers import (
    CONTENT,
    PLACE,
    FaultyServer,
    Release,
    faulty_server,
    published,
    store_of,
)


@pytest.fixture
def resources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program's resources in a folder where a test may change them."""
    copy = tmp_path / "resources"
    shutil.copytree(paths.resources(), copy)
    monkeypatch.setenv("UPREEL_RESOURCES", str(copy))  # for processes that are started, too
    return copy


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with faulty_server() as server:
        server.files[PLACE] = CONTENT
        yield server


@pytest.fixture
def file() -> PublishedFile:
    return published()


@pytest.fixture
def store(tmp_path: Path, file: PublishedFile, server: FaultyServer) -> Store:
    return store_of(tmp_path / "models", server, file)


@pytest.fixture
def release(resources: Path, server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> Release:
    """A newer version on the server; this program has its address and its key."""
    release = Release(server)
    release.publish()
    release.build(resources)
    monkeypatch.delenv("UPREEL_UPDATES", raising=False)
    return release


@pytest.fixture
def heard() -> Any:
    """A Listener for the events of a task or an engine."""
    from tests.helpers.jobs import Listener  # needs av, which a machine for GPU tests may lack

    return Listener()


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Waiting]]:
    """Makes computers that wait to be paired."""
    monkeypatch.setattr(identity, "_folder", folder_of_thread)
    for module in (pairing, pairing_port):
        monkeypatch.setattr(module, "_LOOK_S", 0.01)
    made: list[Waiting] = []

    def make(name: str = "waiting", answer: bool | None = True) -> Waiting:
        made.append(Waiting(tmp_path / name, answer))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """Each command adds its log file to the root logger; the next test has none of it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
