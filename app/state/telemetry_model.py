"""The machine and the speed at this moment, for the gauges."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from engine.protocol import events


class TelemetryModel(QObject):
    """Latest readings; `changed` says that there are newer ones."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.reading: events.Telemetry | None = None
        self.is_ready = False  # heavy libraries are loaded
        self.frames_per_second = 0.0
        self.seconds_left = 0.0
        self.planned_bytes = 0  # predicted for the card, of the running job
        self._jobs_running: set[str] = set()

    def on_event(self, event: events.Event) -> None:
        """Take what concerns the machine; everything else is ignored."""
        match event:
            case events.Telemetry():
                self.reading = event
            case events.EngineReady():
                self.is_ready = True
            case events.StageProgress(stage="upscale" | "write"):
                self.frames_per_second = event.frames_per_second or self.frames_per_second
                self.seconds_left = event.seconds_left or self.seconds_left
            case events.JobStarted():
                self._jobs_running.add(event.job_id)
            case events.JobFinished() | events.JobFailed() | events.JobCancelled():
                self._jobs_running.discard(event.job_id)
                self.frames_per_second = self.seconds_left = 0.0
            case events.JobPaused():
                self.frames_per_second = 0.0
            case _:
                return
        self.changed.emit()

    @property
    def is_running(self) -> bool:
        """True while a job holds the engine."""
        return bool(self._jobs_running)
