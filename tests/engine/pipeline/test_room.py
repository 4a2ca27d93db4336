"""Space that a job leaves free on a disk."""

from types import SimpleNamespace

import pytest

from engine.core.errors import DiskFull, OutputUnwritable
from engine.pipeline import room
from tests.helpers.disks import Disk

MB = 10**6


@pytest.mark.parametrize(
    ("total", "needed", "least"),
    # of a large disk 200 MB, of a small one a twentieth
    [(10**6, 0, 200), (10**6, 50, 250), (4000, 0, 200), (2000, 0, 100), (2000, 50, 150)],
)
def test_a_job_leaves_room_for_others(total, needed, least, monkeypatch, tmp_path):
    disk = Disk(monkeypatch, free=least * MB, total=total * MB)
    room.check_room(SimpleNamespace(uses_last_room=False), tmp_path, needed * MB)
    disk.free -= 1
    with pytest.raises(DiskFull):
        room.check_room(SimpleNamespace(uses_last_room=False), tmp_path, needed * MB)


def test_a_folder_that_was_removed_during_the_job_is_named(tmp_path):
    gone = tmp_path / "gone"
    with pytest.raises(OutputUnwritable) as caught:
        room.check_room(SimpleNamespace(uses_last_room=False), gone, 0)
    assert caught.value.message == f"The folder {gone} does not exist."
