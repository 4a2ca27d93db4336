"""Unfinished jobs of earlier runs: offered at the start, and when their video is added again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QRunnable, QThreadPool, Signal, SignalInstance

from app.controllers.queue import QueueController
from app.jobs.found_files import FoundFiles
from app.main_window import MainWindow
from app.state.job_row import JobRow
from app.state.queue_model import QueueModel

if TYPE_CHECKING:
    from engine.api import UnfinishedJob


class LeftOverController(QObject):
    """Asks about unfinished jobs; the queue gets those that the user continues.

    The first question is about videos that were added again, then about the others that can go on,
    then about those that cannot.
    """

    looked = Signal(object)  # tuple[UnfinishedJob, ...] of files that were added

    def __init__(self, window: MainWindow, controller: QueueController, queue: QueueModel) -> None:
        super().__init__(window)
        self._window, self._controller, self._queue = window, controller, queue
        self._open: tuple[UnfinishedJob, ...] = ()  # without an answer
        self._asked: tuple[UnfinishedJob, ...] = ()  # what the banner asks about
        self._again: set[str] = set()  # jobs whose video was added again
        column = window.queue_column
        column.continue_requested.connect(self._continue)
        column.discard_requested.connect(self._discard)
        controller.looked_through.connect(self._look)
        self.looked.connect(self._offer_again)

    def offer(self, jobs: Sequence[UnfinishedJob]) -> None:
        """Ask about these jobs; none takes the question away."""
        self._open = tuple(jobs)
        able = [job for job in jobs if job.problem is None]
        again = [job for job in able if job.job_id in self._again]
        self._asked = tuple(again or able or jobs)
        self._window.queue_column.offer_unfinished(self._asked, is_again=bool(again))
        self._window.decision.offer_unfinished(bool(able))

    def _look(self, found: FoundFiles) -> None:
        """Look in another thread for what was begun of added files: a drive may not answer."""
        if found.files:
            QThreadPool.globalInstance().start(_Look(self.looked, tuple(found.files)))

    def _offer_again(self, begun: Sequence[UnfinishedJob]) -> None:
        """Ask first about jobs that are neither in the queue nor were removed from it."""
        known = self._controller.removals.job_ids | {row.job_id for row in self._queue.rows}
        again = [job for job in begun if job.job_id not in known]
        if again:
            self._again |= {job.job_id for job in again}
            self.offer([*again, *self._open_but(again)])

    def _continue(self) -> None:
        jobs = self._asked
        again = [job for job in jobs if job.job_id in self._again]
        replaced = {row.job_id for job in again if (row := self._added_for(job)) is not None}
        self._controller.continue_left_over(jobs, instead_of=tuple(replaced))
        self.offer(self._open_but(jobs))

    def _added_for(self, job: UnfinishedJob) -> JobRow | None:
        """The job that was added last of the same source, and waits."""
        for row in reversed(self._queue.rows):
            source = row.media.given if row.media is not None else row.source
            if source == job.source and row.state.can_change:
                return row
        return None

    def _discard(self) -> None:
        jobs = self._asked
        self._controller.discard_left_over(jobs, lambda: self.offer((*jobs, *self._open)))
        self.offer(self._open_but(jobs))

    def _open_but(self, jobs: Sequence[UnfinishedJob]) -> list[UnfinishedJob]:
        ids = {job.job_id for job in jobs}
        return [job for job in self._open if job.job_id not in ids]


class _Look(QRunnable):
    """A look at the jobs on the disk; Qt brings the answer back to the window's thread."""

    def __init__(self, looked: SignalInstance, files: tuple[Path, ...]) -> None:
        super().__init__()
        self._looked, self._files = looked, files

    def run(self) -> None:
        from engine import api  # loaded by then

        self._looked.emit(api.begun_jobs(self._files))
