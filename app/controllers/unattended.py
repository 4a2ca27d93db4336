"""The unattended queue: the watched folder, the action after the last video, ends of sessions."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QRunnable, Qt, QThreadPool, QTimer, Signal, SignalInstance
from PySide6.QtGui import QSessionManager
from PySide6.QtWidgets import QApplication

from app import desktop
from app.controllers import restart
from app.controllers.queue import QueueController
from app.controllers.settings import SettingsController
from app.i18n import tr
from app.jobs.queue_column import AfterQueueCard
from app.jobs.watched_films import WatchedFilms
from app.main_window import MainWindow
from app.start_options import RESUME
from app.state.downloads_model import DownloadsModel
from app.state.job_row import JobState
from app.state.queue_model import QueueModel
from app.ui_state import UiState
from engine.core import paths
from engine.core.file_access import reason_of
from engine.settings.schema import EngineSettings

if TYPE_CHECKING:
    from engine.api import UnfinishedJob

_log = logging.getLogger(__name__)
_EVERY_MS = 5000
_SHARE = 200  # of a CPU's time: a look at thousands of files is followed by a longer pause
_MOST_AT_ONCE = 5  # videos of one look: they take the window 20 to 25 ms
_MOST_WAITING = 100  # videos in the queue; the folder holds the others until there is room


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Result of a look at the folder."""

    films: tuple[Path, ...] = ()  # to be taken
    problem: str = ""  # why the folder cannot be read, in the system's words; "" where it can
    seconds: float = 0.0  # CPU time


class WatchController(QObject):
    """Looks at the folder of the settings every few seconds, in another thread.

    A video that fails stays in the queue as any other does: it is taken once. With `watch_starts`
    videos of the folder run one by one, also after a new start of the program, unless the user has
    stopped the queue; other videos wait for Start.
    """

    _looked = Signal(object)  # Look

    def __init__(
        self,
        window: MainWindow,
        controller: QueueController,
        queue: QueueModel,
        settings: SettingsController,
        ui_state: UiState,
    ) -> None:
        super().__init__(window)
        self._controller, self._queue = controller, queue
        self._settings, self._ui_state = settings, ui_state
        self._window, self._line = window, window.queue_column.watch
        self._folder = ""  # that was watched last; the switch brings it back
        self._films = WatchedFilms(paths.data_folder() / "watched.txt")
        self._problem, self._is_on, self._is_looking = "", False, False
        self._timer = QTimer(self, interval=0, singleShot=True)
        self._timer.timeout.connect(self._look)
        self._looked.connect(self._take)
        self._line.toggled.connect(self._switch)

    def begin(self) -> None:
        """Follow the settings from now on; the videos of the last run are in the queue."""
        self._settings.changed.connect(self._follow)
        self._follow(self._ui_state.engine_settings)

    def go_on(
        self, begun: tuple[UnfinishedJob, ...], watched: Collection[str]
    ) -> tuple[UnfinishedJob, ...]:
        """Let the video of the folder go on that the last run has begun, where new ones start.

        Args:
            begun: Jobs of earlier runs.
            watched: Names of those that came from the folder and can go on by themselves.

        Returns:
            The other jobs: they wait for the user.
        """
        settings = self._ui_state.engine_settings
        own = [job for job in begun if job.job_id in watched and job.problem is None]
        if not (own and settings.watch_folder and settings.watch_starts):
            return begun
        self._controller.continue_left_over(own, starts_at_once=False)
        for job in own:
            self._queue.mark_watched(job.job_id)
        return tuple(job for job in begun if job not in own)

    def _follow(self, settings: EngineSettings) -> None:
        folder = settings.watch_folder
        has_changed = folder != (self._folder if self._is_on else "")
        self._is_on = bool(folder)
        if has_changed and folder:
            self._folder, self._problem = folder, ""
            self._timer.start(0)
        self._show()

    def _switch(self, is_on: bool) -> None:
        self._settings.change(watch_folder=self._folder if is_on else "")

    def _look(self) -> None:
        if self._is_looking:
            return
        self._is_looking = True
        waiting = self._queue.count(JobState.READING) + len(self._queue.startable)
        room = min(_MOST_AT_ONCE, _MOST_WAITING - waiting) if self._is_on else 0
        look = functools.partial(
            self._films.look,
            Path(self._folder),
            frozenset(row.source for row in self._queue.rows),
            self._ui_state.engine_settings.name_pattern,
            max(0, room),
        )
        QThreadPool.globalInstance().start(_LookTask(self._looked, look))

    def _take(self, look: Look) -> None:
        self._is_looking = False
        with self._queue.together():
            for film in look.films:
                self._queue.mark_watched(self._controller.add_file(film, is_automatic=True))
        if look.problem and not self._problem:
            _log.warning("the watched folder %s: %s", self._folder, look.problem)
        self._problem = look.problem
        self._show()
        if self._is_on:
            self._start_next()
        if self._is_on or look.films:  # which the next look writes down
            self._timer.start(max(_EVERY_MS, round(1000 * _SHARE * look.seconds)))

    def _start_next(self) -> None:
        """Run a video of the folder where one can start and the user wants that."""
        is_wanted = self._ui_state.engine_settings.watch_starts and not self._controller.is_stopped
        is_free = self._window.actions_["start"].isEnabled()
        can_start = (row.job_id for row in self._queue.rows if row.is_watched and row.can_start)
        film = next(can_start, "")
        if is_wanted and is_free and film:
            self._controller.start_alone(film)

    def _show(self) -> None:
        is_away = self._is_on and bool(self._problem)
        self._line.show_folder(self._folder, is_on=self._is_on, is_away=is_away)


class _LookTask(QRunnable):
    """A look in a thread of the pool; Qt brings what it gave back to the window's thread."""

    def __init__(self, looked: SignalInstance, look: Callable[[], list[Path]]) -> None:
        super().__init__()
        self._looked, self._look = looked, look

    def run(self) -> None:
        films: list[Path] = []
        problem, began = "", time.thread_time()
        try:
            films = self._look()
        except OSError as err:
            problem = str(reason_of(err))
        finally:  # a mistake of ours does not end the looks
            seconds = time.thread_time() - began
            self._looked.emit(Look(films=tuple(films), problem=problem, seconds=seconds))


_SECONDS = 60  # in which it can be cancelled


class AfterQueueController(QObject):
    """Carries out the setting `after_queue`, unless videos wait for downloads.

    Any change of the queue meanwhile cancels it: the user is present.
    """

    def __init__(
        self,
        window: MainWindow,
        controller: QueueController,
        queue: QueueModel,
        downloads: DownloadsModel,
        ui_state: UiState,
    ) -> None:
        super().__init__(window)
        self._downloads, self._ui_state = downloads, ui_state
        self._wanted = self._setting
        self._left = 0  # seconds
        self._timer = QTimer(self, interval=1000)
        self._timer.timeout.connect(self.count)
        self.card = AfterQueueCard()
        self._column = window.queue_column
        self._column.add_notice(self.card)
        self._column.put_first(self.card)
        self.card.cancelled.connect(self.cancel)
        controller.queue_ended.connect(self._begin)
        controller.queue_stops.connect(window.decision.show_stop)
        window.decision.stop_requested.connect(
            lambda stops: controller.stop() if stops else controller.start()
        )
        queue.queue_changed.connect(self.cancel)

    def count(self) -> None:
        """One second less; at the end, what the user has chosen."""
        if self._setting != self._wanted:
            self.cancel()
            return
        self._left -= 1
        if self._left == 0:
            self._timer.stop()
            if _carry_out(*self._wanted):
                self.card.hide()
                return
        self._show()

    def cancel(self) -> None:
        """Nothing follows any more, and no failure is shown."""
        self._timer.stop()
        self.card.hide()

    @property
    def _setting(self) -> tuple[str, str]:
        """The setting, and the command where it is one."""
        settings = self._ui_state.engine_settings
        what = settings.after_queue
        return what, settings.after_queue_command if what == "command" else ""

    def _begin(self) -> None:
        self._wanted = what, _ = self._setting
        if what == "nothing" or self._downloads.films:
            return
        if what == "sound":
            QApplication.beep()
            return
        self._left = _SECONDS
        self._show()
        self._column.answer_requested.emit()
        self._timer.start()

    def _show(self) -> None:
        self.card.show_countdown(*self._wanted, self._left)


def _carry_out(what: str, command: str) -> bool:
    """Whether the system has taken it."""
    match what:
        case "sleep":
            return desktop.sleep()
        case "shut-down":
            return desktop.shut_down()
    words = desktop.command_words(command)
    return bool(words) and desktop.start_program(words)


class SessionController(QObject):
    """Holds up the end of a Windows session while a video runs, and states the reason.

    With the setting `resume_after_update` it does not: Windows starts the program again, which goes
    on by itself. Not where videos wait that were not to run, since those would run as well.
    """

    def __init__(
        self,
        window: MainWindow,
        controller: QueueController,
        queue: QueueModel,
        settings: SettingsController,
        ui_state: UiState,
    ) -> None:
        super().__init__(window)
        self._window, self._controller, self._queue = window, controller, queue
        self._ui_state = ui_state
        self._reason, self._is_shown = "", False
        self._resumes = self._is_accepted = False
        for changed in (queue.queue_changed, queue.job_changed, settings.changed):
            changed.connect(lambda *_: self.refresh())
        controller.queue_stops.connect(lambda *_: self.refresh())
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.commitDataRequest.connect(self.decide, Qt.ConnectionType.DirectConnection)

    def refresh(self) -> None:
        """Tell the system what has changed."""
        active, controller = self._queue.active, self._controller
        reason = tr("{name} is still being processed.", name=active.name) if active else ""
        if reason != self._reason:
            self._reason = reason
            self._is_shown = desktop.explain_shutdown(int(self._window.winId()), reason)
        resumes = (
            active is not None
            and not controller.is_stopped
            and (controller.goes_on or not self._queue.can_start)
            and self._ui_state.engine_settings.resume_after_update
        )
        if resumes != self._resumes:
            self._resumes = resumes
            arguments = [*restart.command()[1:], RESUME] if resumes else []
            self._is_accepted = desktop.restart_after_update(arguments)

    def decide(self, session: QSessionManager) -> None:
        """Answer the question of the system whether the session may end."""
        if self._is_shown and not (self._resumes and self._is_accepted):
            session.cancel()
