"""Jobs shown outside the queue: the selected one in the preview, the running one on the desktop."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QWidget

from app import desktop
from app.bridge.engine_bridge import EventHub
from app.controllers.queue import QueueController
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
        hub.subscribe(events.WorkerProgress, view.worker_progress)
        hub.subscribe(events.Telemetry, view.telemetry)
        hub.subscribe(events.PlanChosen, self._planned)
        hub.subscribe(events.PlanDowngraded, self._planned)
        hub.subscribe(events.JobFinished, self._finished)
        for ended in (events.JobFailed, events.JobCancelled):  # the card at the buttons says why
            hub.subscribe(ended, self._stopped)

    def show_row(self, row: JobRow | None) -> None:
        """Another job was selected, or the shown one was read or has begun."""
        self._view.pair.set_can_trim(row is not None and row.state.can_change)
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

    def _planned(self, event: events.PlanChosen | events.PlanDowngraded) -> None:
        self._view.show_plan(event.job_id, event.plan)

    def _finished(self, event: events.JobFinished) -> None:
        if event.job_id == self._view.job_id:
            self._view.finished(event.report)

    def _stopped(self, event: events.JobEvent) -> None:
        if event.job_id == self._view.job_id:
            self._view.stopped()


class DesktopController(QObject):
    """Follows the queue; a failure stays on the button until the next job runs or is looked at.

    Shown is how much of all films is done that run from Start until nothing starts by itself.
    """

    def __init__(self, window: QWidget, controller: QueueController, queue: QueueModel) -> None:
        super().__init__(window)
        self._window, self._controller, self._queue = window, controller, queue
        self._running = ""  # job_id
        self._ended: dict[str, float] = {}  # job_id -> its weight
        self._shown = _NOTHING
        queue.job_changed.connect(self.refresh)
        queue.queue_changed.connect(self.refresh)
        controller.queue_stops.connect(lambda _stops: self.refresh())
        window.installEventFilter(self)

    def refresh(self, _job_id: str = "") -> None:
        """Look at the queue again."""
        active = self._queue.active
        if self._running and (active is None or active.job_id != self._running):
            self._end()
        if active is not None:
            self._running = active.job_id
            self._show(*self._progress_of(active))
        elif not self._controller.goes_on:
            self._ended.clear()
            if self._shown[0] is not Progress.FAILED:
                self._show(*_NOTHING)

    def _end(self) -> None:
        """The film that ran runs no more."""
        ended, self._running = self._queue.find(self._running), ""
        if ended is not None:
            self._ended[ended.job_id] = _weight(ended)
        has_failed = ended is not None and ended.state is JobState.FAILED
        if QApplication.activeWindow() is not None:
            return
        if has_failed:
            self._show(Progress.FAILED, _STEPS)
        if has_failed or not self._queue.count(JobState.WAITING):
            QApplication.alert(self._window)

    def _progress_of(self, active: JobRow) -> tuple[Progress, int]:
        waiting = self._queue.rows if self._controller.goes_on else ()
        coming = [row for row in waiting if row.can_start]
        to_do = {row.job_id: _weight(row) for row in (active, *coming)}
        ended = sum(weight for name, weight in self._ended.items() if name not in to_do)
        done = ended + active.share * _weight(active)
        steps = round(_STEPS * done / (ended + sum(to_do.values())))
        if active.state is JobState.PAUSED:
            return Progress.PAUSED, steps
        return (Progress.RUNNING, steps) if active.total or ended else (Progress.UNKNOWN, 0)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """What failed is seen as soon as the user comes back to the window."""
        if event.type() is QEvent.Type.WindowActivate and self._shown[0] is Progress.FAILED:
            self._show(*_NOTHING)
        return super().eventFilter(watched, event)

    def _show(self, progress: Progress, steps: int) -> None:
        if (progress, steps) != self._shown:
            self._shown = (progress, steps)
            desktop.show_progress(int(self._window.winId()), progress, steps / _STEPS)


def _weight(row: JobRow) -> float:
    """Of a film among others: seconds that it should take, at least one."""
    return max(1.0, row.plan.seconds if row.plan is not None else 0.0)
