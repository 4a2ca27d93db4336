"""The icon in the system tray: how far the queue is, and one notification when it ends."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication, QSystemTrayIcon

from app.controllers.queue import QueueController
from app.i18n import tr
from app.main_window import MainWindow
from app.state.job_row import JobState
from app.state.queue_model import QueueModel
from app.widgets.plain import set_tip

_ENDS = (JobState.DONE, JobState.FAILED)


class TrayController(QObject):
    """Has an icon only where the system has a tray.

    A film counts once, with its last outcome, from one notification to the next.
    """

    opened = Signal()  # the user wants the window

    def __init__(self, window: MainWindow, controller: QueueController, queue: QueueModel) -> None:
        super().__init__(window)
        self._queue = queue
        self._states: dict[str, JobState] = {}  # by job_id
        self._ended: dict[str, JobState] = {}
        self.icon: QSystemTrayIcon | None = None
        if not QSystemTrayIcon.isSystemTrayAvailable():
            return
        self.icon = QSystemTrayIcon(window.windowIcon(), self)
        self.icon.activated.connect(self._activated)
        self.icon.messageClicked.connect(self.opened)
        queue.job_changed.connect(self._job_changed)
        queue.queue_changed.connect(self._show)
        controller.queue_ended.connect(self._notify)
        app = QApplication.instance()
        assert app is not None
        app.aboutToQuit.connect(self.icon.hide)  # Windows keeps it otherwise
        self._show()
        self.icon.show()

    def _activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason is not QSystemTrayIcon.ActivationReason.Context:
            self.opened.emit()

    def _job_changed(self, job_id: str) -> None:
        row = self._queue.find(job_id)
        if row is not None:
            before = self._states.get(job_id)
            self._states[job_id] = row.state
            if row.state in _ENDS and before not in (None, row.state):
                self._ended[job_id] = row.state
        self._show()

    def _show(self) -> None:
        assert self.icon is not None
        active = self._queue.active
        lines = ["Upreel"]
        if active is not None:
            lines.append(f"{active.name} · {active.share:.0%}")
        waiting = self._queue.count(JobState.WAITING)
        if waiting:
            lines.append(tr("{count} queued", count=waiting))
        set_tip(self.icon, "\n".join(lines))

    def _notify(self) -> None:
        """Say how the queue ended, to a user who does not look at the window."""
        outcomes = list(self._ended.values())
        self._ended.clear()
        if not outcomes or QApplication.activeWindow() is not None:
            return
        assert self.icon is not None
        failed = outcomes.count(JobState.FAILED)
        kinds = QSystemTrayIcon.MessageIcon
        self.icon.showMessage(
            tr("Queue finished"),
            tr("Finished: {done} · failed: {failed}", done=len(outcomes) - failed, failed=failed),
            kinds.Warning if failed else kinds.Information,
        )
