"""Room on disks: a job pauses when one is full, or nearly so, and goes on when there is room."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from engine.core import paths
from engine.core.errors import DiskFull
from engine.core.file_access import is_folder, writing
from engine.core.units import bytes_text
from engine.hardware.out_of_memory import forget_frames, free_memory
from engine.pipeline.context import JobContext
from engine.planner.notices import SPARE_BYTES
from engine.protocol.commands import PauseJob, ResumeJob
from engine.protocol.events import Warned
from engine.protocol.plan import Notice

T = TypeVar("T")

_POLL_S = 0.5
_SPARE_SHARE = 20  # of a small disk this part stays free


def check_room(context: JobContext, folder: Path, needed: int) -> None:
    """Refuse to fill a disk up: other programs, and the system, need some room too.

    Args:
        context: Context of the job; a user who let it continue is not asked again.
        folder: Folder that is written into.
        needed: Bytes of what comes next.

    Raises:
        DiskFull: Less than that, and what is to stay free, is there.
        OutputUnwritable: The folder has gone, or its drive.
    """
    with writing(folder / "next"):  # its error names the folder
        disk = shutil.disk_usage(folder)
    wanted = needed + _spare(disk.total)
    if disk.free < wanted and not context.uses_last_room:
        free, size = bytes_text(disk.free), bytes_text(wanted)
        shown = paths.shown(folder)
        raise DiskFull("low", folder=shown, free=free, size=size, path=folder)


def with_room(context: JobContext, work: Callable[[], T], needed: Callable[[], int]) -> T:
    """Do some work; when a disk is full, pause the job until there is room, and do it again.

    Args:
        context: Context of the job.
        work: May be done again from its beginning.
        needed: Bytes that it still needs.

    Raises:
        DiskFull: Room that seems to be there is refused twice, or the disk is too small.
        Cancelled: The user stopped.
    """
    has_waited = True
    while True:
        try:
            return work()
        except DiskFull as err:
            if context.is_excerpt:
                raise
            error = err
            forget_frames(err)
        free_memory()  # here, where the error and the work are no more
        waited = _wait(context, error, needed())
        if not waited and not has_waited:
            raise error  # a quota, or a file system without room for names
        has_waited = waited


def _wait(context: JobContext, error: DiskFull, needed: int) -> bool:
    """Wait until there is room; False where there is some already.

    Raises:
        DiskFull: So much never fits, or the disk is not known.
        Cancelled: The user stopped.
    """
    path = error.params.get("path")
    folders = (path, *path.parents) if isinstance(path, Path) else ()
    folder = next(filter(is_folder, folders), None)
    if folder is None or shutil.disk_usage(folder).total < needed:
        raise error
    goal = needed + _spare(shutil.disk_usage(folder).total)
    if shutil.disk_usage(folder).free >= goal:
        return False
    _pause(context, error, lambda: shutil.disk_usage(folder).free >= goal)
    return True


def _pause(context: JobContext, error: DiskFull, may_go_on: Callable[[], bool]) -> None:
    """Pause the job; the user may resume it, too, and then the last room is used."""
    notice = Notice(code="waits-for-room", severity="warning", params={"problem": error.as_message})
    context.events.emit(Warned(job_id=context.job_id, notice=notice))
    control = context.control
    is_ours, resumed_before = not control.is_paused, control.resumed
    if is_ours:
        context.send(PauseJob(job_id=context.job_id))
    while not may_go_on():
        control.check_cancelled()
        if control.resumed > resumed_before and not control.is_paused:
            context.uses_last_room = True
            return
        if control.resumes_within(_POLL_S):
            time.sleep(_POLL_S)  # the pause that was asked for has not come yet
    if is_ours:
        context.send(ResumeJob(job_id=context.job_id))


def _spare(total: int) -> int:
    """Bytes of a disk that stay free."""
    return min(SPARE_BYTES, total // _SPARE_SHARE)
