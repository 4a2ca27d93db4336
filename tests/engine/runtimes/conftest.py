from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.runtimes.catalogue import catalogue
from tests.helpers import runtimes


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return runtimes.wheel(tmp_path / "published")


@pytest.fixture(autouse=True)
def _own_catalogue() -> Iterator[None]:
    catalogue.cache_clear()
    yield
    catalogue.cache_clear()
