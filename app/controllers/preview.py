"""Keeps the stage in step with the selected job."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app.bridge.engine_bridge import EngineBridge
from app.preview.preview_view import StageView
from app.state.job_row import JobRow, JobState
from engine.protocol import events


class StageLink(QObject):
    """Hands the stage what concerns the job it shows."""

    def __init__(
        self, stage: StageView, bridge: EngineBridge, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._stage = stage
        bridge.tile_done.connect(stage.tile_done)
        bridge.preview_ready.connect(stage.preview_ready)
        bridge.stage_progress.connect(stage.progress)
        bridge.telemetry.connect(stage.telemetry)
        bridge.plan_chosen.connect(lambda event: stage.show_plan(event.job_id, event.plan))
        bridge.plan_downgraded.connect(lambda event: stage.show_plan(event.job_id, event.plan))
        bridge.job_finished.connect(self._finished)
        bridge.job_failed.connect(self._failed)
        bridge.job_cancelled.connect(self._cancelled)

    def show_row(self, row: JobRow | None) -> None:
        """Another card was taken, or the shown job was read."""
        if row is None or row.media is None:
            self._stage.show_empty()
            return
        if row.job_id == self._stage.job_id:
            return
        self._stage.show_job(row.job_id, row.media, row.picture)
        if row.plan is not None:
            self._stage.show_plan(row.job_id, row.plan)
        if row.report is not None:
            self._stage.finished(row.report)
        elif row.error is not None and row.state is JobState.FAILED:
            self._stage.failed(row.error)

    def _finished(self, event: events.JobFinished) -> None:
        if event.job_id == self._stage.job_id:
            self._stage.finished(event.report)

    def _failed(self, event: events.JobFailed) -> None:
        if event.job_id == self._stage.job_id:
            self._stage.failed(event.error)

    def _cancelled(self, event: events.JobCancelled) -> None:
        if event.job_id == self._stage.job_id:
            self._stage.stopped()
