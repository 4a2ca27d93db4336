"""The machine and the speed at this moment, for the gauges."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.bridge.engine_bridge import EventHub
from engine.protocol import events


class TelemetryModel(QObject):
    """Latest readings; `changed` announces newer ones."""

    changed = Signal()

    def __init__(self, hub: EventHub, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.reading: events.Telemetry | None = None
        self.is_ready = False  # heavy libraries are loaded
        self.frames_per_second = 0.0
        self.seconds_left = 0.0
        self.planned_bytes = 0  # predicted for the GPU, of the running job
        self._jobs_running: set[str] = set()
        hub.subscribe(events.Telemetry, self._read)
        hub.subscribe(events.EngineReady, self._ready)
        hub.subscribe(events.StageProgress, self._progress)
        hub.subscribe(events.JobStarted, self._start)
        hub.subscribe(events.JobPaused, self._pause)
        for ended in (events.JobFinished, events.JobFailed, events.JobCancelled):
            hub.subscribe(ended, self._end)

    def _read(self, event: events.Telemetry) -> None:
        self.reading = event
        self.changed.emit()

    def _ready(self, _event: events.EngineReady) -> None:
        self.is_ready = True
        self.changed.emit()

    def _progress(self, event: events.StageProgress) -> None:
        if event.stage in ("upscale", "write"):
            self.frames_per_second = event.frames_per_second or self.frames_per_second
            self.seconds_left = event.seconds_left or self.seconds_left
            self.changed.emit()

    def _start(self, event: events.JobStarted) -> None:
        self._jobs_running.add(event.job_id)
        self.changed.emit()

    def _pause(self, _event: events.JobPaused) -> None:
        self.frames_per_second = 0.0
        self.changed.emit()

    def _end(self, event: events.JobEvent) -> None:
        self._jobs_running.discard(event.job_id)
        self.frames_per_second = self.seconds_left = 0.0
        self.changed.emit()

    @property
    def is_running(self) -> bool:
        """True while a job holds the engine."""
        return bool(self._jobs_running)
