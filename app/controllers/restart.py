"""A restart of the program: waiting videos come along, and nothing of a running one is lost.

Videos that wait for a download start by themselves once that has ended.

What the user changes is written to a file before the window shows it, so that a crash at any time
loses none of it; other changes in quick succession are written together. Begun videos are not in
it: the engine keeps those itself, and offers to continue them. The end of the program adds the
running video of the watched folder, which can go on by itself. After a crash it must not: it may
have caused the crash.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.controllers.queue import QueueController
from app.i18n import tr
from app.main_window import MainWindow
from app.state.downloads_model import DownloadsModel
from app.state.job_row import JobState
from app.state.queue_model import QueueModel
from engine.core import atomic_file, paths
from engine.core.serialization import from_plain, read_json, set_aside, to_plain
from engine.settings.schema import JobSettings

_FILE = "restart.json"
_SHARE = 10  # the window's time in which a look at the queue, with its writing, is one part


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFilm:
    """A waiting video with its choices."""

    job_id: str  # in the program that ends
    source: Path
    settings: JobSettings
    output: Path | None = None
    downloads: bool = False  # it starts when its missing files have been downloaded
    is_watched: bool = False  # it came from the watched folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The queue that comes along."""

    films: tuple[WaitingFilm, ...] = ()
    starts: bool = False  # the queue was running
    begun: tuple[str, ...] = ()  # jobs of the watched folder that ran at the end of the program


class RestartController(QObject):
    """Waits for the running video, then ends the program; `is_due` means to start it again."""

    changed = Signal()

    def __init__(
        self,
        window: MainWindow,
        controller: QueueController,
        queue: QueueModel,
        downloads: DownloadsModel,
    ) -> None:
        super().__init__(window)
        self._window, self._controller, self._queue = window, controller, queue
        self._downloads = downloads
        self.waits_for = ""  # name of a video
        self.is_due = self.keeps = False
        self._last: Waiting | None = None  # written last
        self._soon = QTimer(self, singleShot=True)
        self._soon.timeout.connect(self._follow)
        self._due = 0.0  # time.monotonic() of the next look; 200 videos are written in 40 ms
        queue.queue_changed.connect(self._look)
        window.actions_["restart"].triggered.connect(self.request)

    def keep_from_now(self) -> None:
        """Write down every change from now on: the videos of the last run were taken over."""
        queue, downloads = self._queue, self._downloads
        queue.user_changed.connect(self.keep)
        for changed in (queue.queue_changed, queue.job_changed, downloads.changed):
            changed.connect(lambda *_: self._follow())
        self.keeps = True
        self._follow()

    def _follow(self) -> None:
        """Write what else has changed, soon where a look at the queue was a moment ago."""
        if self._soon.isActive():
            return
        begin = time.monotonic()
        if begin < self._due:
            self._soon.start(math.ceil(1000 * (self._due - begin)))
            return
        self.keep()
        end = time.monotonic()
        self._due = end + _SHARE * (end - begin)

    def keep(self, *, ends: bool = False) -> None:
        """Write down the waiting videos, and `begun` where the program ends."""
        if not self.is_due and (waiting := self._waiting(starts=False, ends=ends)) != self._last:
            self._last = waiting
            if problem := write(waiting):
                self._controller.command_failed.emit(problem)

    def request(self) -> None:
        """Restart as soon as no video is processed; the queue stops meanwhile."""
        active = self._queue.active
        if active is None:
            self._leave(starts=False)
            return
        self.waits_for = active.name
        self._controller.stop()
        self.changed.emit()

    def cancel(self) -> None:
        """Cancel the restart: the queue goes on."""
        if self.waits_for:
            self.waits_for = ""
            self._controller.start()
            self.changed.emit()

    def now(self) -> None:
        """Restart at once: the running video continues afterwards."""
        self._leave(starts=False)

    def _look(self) -> None:
        if self.waits_for and self._queue.active is None:
            self._leave(starts=True)

    def _leave(self, *, starts: bool) -> None:
        if self.is_due:
            return
        self.waits_for = ""
        problem = write(self._waiting(starts=starts, ends=True))
        if problem:  # rather no new start than a queue that is gone
            self._controller.command_failed.emit(problem)
            self.changed.emit()
            return
        self.is_due = True
        self._window.leave()

    def _waiting(self, *, starts: bool, ends: bool) -> Waiting:
        films = tuple(
            WaitingFilm(
                job_id=row.job_id,
                source=row.source,
                settings=row.settings,
                output=row.output,
                downloads=row.job_id in self._downloads.films,
                is_watched=row.is_watched,
            )
            for row in self._queue.rows
            if row.state.can_change or row.awaits_source or row.job_id in self._downloads.films
        )
        own = (row for row in self._queue.rows if row.is_watched and ends)
        begun = tuple(row.job_id for row in own if row.state is JobState.RUNNING)
        return Waiting(films=films, starts=starts, begun=begun)


def write(waiting: Waiting) -> str:
    """Save a queue for the next start; returns the problem where that fails, else ""."""
    file = paths.data_folder() / _FILE
    try:
        if waiting.films or waiting.begun:
            file.parent.mkdir(parents=True, exist_ok=True)
            atomic_file.write_json(file, to_plain(waiting))
        else:
            file.unlink(missing_ok=True)
    except OSError as err:
        return tr("The queue cannot be saved for the restart: {why}.", why=err.strerror or err)
    return ""


def read() -> Waiting:
    """The queue of the last run; an empty one where none was saved."""
    file = paths.data_folder() / _FILE
    with set_aside(file):
        return from_plain(Waiting, read_json(file))
    return Waiting()


def take_over(
    controller: QueueController,
    queue: QueueModel,
    begun: Sequence[str],
    expect: Callable[[str], None],
) -> tuple[str, ...]:
    """Put the videos that came along into the queue.

    Args:
        controller: Controller of the new queue.
        queue: The new queue.
        begun: Names of jobs that the engine offers to continue; they are not added twice.
        expect: Called with the new name of each job that waits for a download.

    Returns:
        Names of begun jobs of the watched folder, which can go on by themselves.
    """
    waiting = read()
    films = [film for film in waiting.films if film.job_id not in begun]
    with queue.together():
        for film in films:
            job_id = controller.add_file(
                film.source,
                settings=film.settings,
                output=film.output,
                starts_at_once=waiting.starts and not film.downloads,
                is_automatic=True,
            )
            if film.downloads:
                expect(job_id)
            if film.is_watched:
                queue.mark_watched(job_id)
    if films:
        controller.files_added.emit()
    return waiting.begun


def command() -> list[str]:
    """Command that starts this program again, without its arguments."""
    if getattr(sys, "frozen", False):
        return [sys.executable]
    return [sys.executable, str(Path(__file__).parents[2] / "main.py")]
