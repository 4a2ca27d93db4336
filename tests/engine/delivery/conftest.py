from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.delivery.runtimes import RuntimeStore
from engine.runtimes.catalogue import catalogue
from tests.helpers import runtimes
from tests.helpers.servers import FaultyServer


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return runtimes.wheel(tmp_path / "published")


@pytest.fixture
def server(server: FaultyServer, wheel: Path) -> FaultyServer:
    """A server that has the wheel."""
    server.files[f"/whl/{runtimes.PLACE}"] = wheel.read_bytes()
    return server


@pytest.fixture
def store(server: FaultyServer, wheel: Path) -> RuntimeStore:
    """The store of a build that pins the wheel."""
    known = runtimes.runtime(wheel)
    return RuntimeStore(runtimes.catalogue(known, index=f"{server.url}/whl/"))


@pytest.fixture(autouse=True)
def _own_catalogue() -> Iterator[None]:
    catalogue.cache_clear()
    yield
    catalogue.cache_clear()
