"""The end of the queue: after this film where the user wants that; what follows the last one."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication

from app import desktop
from app.controllers.queue import QueueController
from app.jobs.after_queue_bar import AfterQueueBar
from app.main_window import MainWindow
from app.state.downloads_model import DownloadsModel
from app.state.queue_model import QueueModel
from app.ui_state import UiState

_SECONDS = 60  # in which it can be cancelled


class AfterQueueController(QObject):
    """Carries out the setting `after_queue`, unless films wait for downloads.

    Whatever happens to the queue meanwhile cancels it: the user is here.
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
        self.bar = AfterQueueBar()
        window.add_bar(self.bar)
        self.bar.cancelled.connect(self.cancel)
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
                self.bar.hide()
                return
        self._show()

    def cancel(self) -> None:
        """Nothing follows any more, and no failure is shown."""
        self._timer.stop()
        self.bar.hide()

    @property
    def _setting(self) -> tuple[str, str]:
        """What follows, and the command where it is one."""
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
        self._timer.start()

    def _show(self) -> None:
        self.bar.show_countdown(*self._wanted, self._left)


def _carry_out(what: str, command: str) -> bool:
    """Whether the system has taken it."""
    match what:
        case "sleep":
            return desktop.sleep()
        case "shut-down":
            return desktop.shut_down()
    words = desktop.command_words(command)
    return bool(words) and desktop.start_program(words)
