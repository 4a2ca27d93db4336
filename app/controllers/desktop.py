"""What the queue does, shown outside the window: taskbar button, a call when all is done."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QWidget

from app import desktop
from app.desktop.taskbar import Progress
from app.state.job_row import JobRow, JobState
from app.state.queue_model import QueueModel

_NOTHING = (Progress.NONE, 0)
_STEPS = 200  # a button is no wider; not every frame has to be told


class DesktopLink(QObject):
    """Follows the queue; a failure stays on the button until the next job runs or is looked at."""

    def __init__(self, window: QWidget, queue: QueueModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._window, self._queue = window, queue
        self._running = ""  # job_id
        self._shown = _NOTHING
        queue.job_changed.connect(self.refresh)
        queue.queue_changed.connect(self.refresh)
        window.installEventFilter(self)

    def refresh(self, _job_id: str = "") -> None:
        """Look at the queue again."""
        active = self._queue.active
        if active is not None:
            self._running = active.job_id
            self._show(*_progress_of(active))
        elif self._running:
            ended, self._running = self._queue.find(self._running), ""
            has_failed = ended is not None and ended.state is JobState.FAILED
            is_seen = QApplication.activeWindow() is not None
            self._show(*((Progress.FAILED, _STEPS) if has_failed and not is_seen else _NOTHING))
            if not is_seen and (has_failed or not self._queue.count(JobState.WAITING)):
                QApplication.alert(self._window)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """What failed is seen as soon as the user comes back to the window."""
        if event.type() is QEvent.Type.WindowActivate and self._shown[0] is Progress.FAILED:
            self._show(*_NOTHING)
        return super().eventFilter(watched, event)

    def _show(self, progress: Progress, steps: int) -> None:
        if (progress, steps) != self._shown:
            self._shown = (progress, steps)
            desktop.show_progress(int(self._window.winId()), progress, steps / _STEPS)


def _progress_of(row: JobRow) -> tuple[Progress, int]:
    steps = int(_STEPS * row.share)
    if row.state is JobState.PAUSED:
        return Progress.PAUSED, steps
    return (Progress.RUNNING, steps) if row.total else (Progress.UNKNOWN, 0)
