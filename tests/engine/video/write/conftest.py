from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.disks import small_disk


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that mount a disk."""
    if "small_disk" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.programs("mount", "umount"))


@pytest.fixture(name="small_disk")
def _small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 16 kB."""
    with small_disk(tmp_path / "small", "16k") as folder:
        yield folder
