import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that mount a disk."""
    if "small_disk" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.programs("mount", "umount"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 16 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if os.name != "posix" or os.geteuid() != 0 or subprocess.run(command, check=False).returncode:
        pytest.skip("a small disk can be made only as root on Linux")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
