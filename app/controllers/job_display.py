"""Jobs shown outside the queue: the selected one in the preview, the running one on the desktop."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QWidget

from app import desktop
from app.bridge.engine_bridge import EventHub
from app.desktop.windows_rules import Progress
from app.preview.preview_view import PreviewView
from app.state.job_row import JobRow, JobState
from app.state.queue_model import QueueModel
from engine.protocol import events

_NOTHING = (Progress.NONE, 0)
_STEPS = 200  # a button is no wider; not every frame has to be shown


class PreviewController(QObject):
    """Hands the preview what concerns the job it shows."""

    def __init__(self, view: PreviewView, hub: EventHub, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._view = view
        hub.subscribe(events.TileDone, view.tile_done)
        hub.subscribe(events.PreviewReady, view.preview_ready)
        hub.subscribe(events.StageProgress, view.progress)
        hub.subscribe(events.Telemetry, view.telemetry)
        for planned in (events.PlanChosen, events.PlanDowngraded):
            hub.subscribe(planned, lambda event: view.show_plan(event.job_id, event.plan))
        hub.subscribe(events.JobFinished, self._finished)
        hub.subscribe(events.JobFailed, self._failed)
        hub.subscribe(events.JobCancelled, self._cancelled)

    def show_row(self, row: JobRow | None) -> None:
        """Another job was selected, or the shown one was read or has begun."""
        self._view.timeline.set_can_trim(row is not None and row.state.can_change)
        if row is None or row.media is None:
            self._view.show_empty()
            return
        if row.job_id == self._view.job_id:
            return
        self._view.show_job(row.job_id, row.media, row.picture)
        if row.plan is not None:
            self._view.show_plan(row.job_id, row.plan)
        if row.report is None and row.done:  # its finished pieces can be played
            self._view.timeline.set_finished(row.done, is_running=row.state.is_active)
            self._view.playback.set_result(is_published=False)
        if row.report is not None:
            self._view.finished(row.report)
        elif row.error is not None and row.state is JobState.FAILED:
            self._view.failed(row.error)

    def _finished(self, event: events.JobFinished) -> None:
        if event.job_id == self._view.job_id:
            self._view.finished(event.report)

    def _failed(self, event: events.JobFailed) -> None:
        if event.job_id == self._view.job_id:
            self._view.failed(event.error)

    def _cancelled(self, event: events.JobCancelled) -> None:
        if event.job_id == self._view.job_id:
            self._view.stopped()


class DesktopController(QObject):
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
