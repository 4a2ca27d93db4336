"""The machine and the speed now and in the last minute, for the gauges."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from app.bridge.engine_bridge import EventHub
from engine.protocol import events
from engine.protocol.gpu_reading import GpuReading
from engine.protocol.plan import Plan

HISTORY_S = 60.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A reading of the machine and the speed at that moment, frames/s."""

    reading: events.Telemetry
    frames_per_second: float


class WorkTimes:
    """Seconds of the stages of the running job, or of the last one; pauses are no work.

    Attributes:
        inside: Seconds of the stages inside of "run", as in `events.StagesTimed`.
        waits_for: "read" or "write" while the GPU waits for it; else "".
        waiting: Share of waiting in the last ten seconds.
    """

    def __init__(self) -> None:
        self.inside: Mapping[str, float] = {}
        self.waits_for, self.waiting = "", 0.0
        self._job_id, self._stage, self._since = "", "", 0.0
        self._taken: dict[str, float] = {}

    def hear(self, event: events.JobEvent) -> None:
        """Take any event of a job: only times, and where a stage begins or work stops, matter."""
        match event:
            case events.StageStarted():
                self._stop(event.at)
                if event.job_id != self._job_id:
                    self._job_id, self._taken, self.inside = event.job_id, {}, {}
                self._stage, self._since = event.stage, event.at
                self._taken.setdefault(event.stage, 0.0)
            case events.StagesTimed() if event.job_id == self._job_id:
                self.inside = event.seconds
                self.waits_for, self.waiting = event.waits_for, event.waiting
            case events.JobPaused() if event.job_id == self._job_id:
                self._stop(event.at)
            case events.JobResumed() if event.job_id == self._job_id and self._taken:
                self._stage, self._since = next(reversed(self._taken)), event.at
            case events.JobFinished() | events.JobFailed() | events.JobCancelled():
                if event.job_id == self._job_id:
                    self._stop(event.at)
                    self._job_id = ""  # tried again, it begins at 0

    def seconds(self, now: float) -> dict[str, float]:
        """Seconds of each stage so far, in their order; `now` is s of time.monotonic()."""
        if not self._stage:
            return dict(self._taken)
        so_far = self._taken[self._stage] + max(0.0, now - self._since)
        return {**self._taken, self._stage: so_far}

    def _stop(self, at: float) -> None:
        self._taken = self.seconds(at)
        self._stage = self.waits_for = ""


class TelemetryModel(QObject):
    """Latest readings; `changed` announces newer ones, `read` those of the machine alone.

    Of several GPUs all views show one: the GPU in use, or the one that the user chose.
    """

    changed = Signal()
    read = Signal()  # about once a second

    def __init__(self, hub: EventHub, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._reading: events.Telemetry | None = None
        self._shown_gpu: int | None = None  # its number; None for the one in use
        self.is_ready = False  # heavy libraries are loaded
        self.frames_per_second = 0.0
        self.plan: Plan | None = None  # of the running job, else of the next one
        self.history: deque[Sample] = deque()  # of the last minute, as they came
        self.work_times = WorkTimes()
        self._jobs_running: set[str] = set()
        hub.subscribe(events.Telemetry, self._read)
        hub.subscribe(events.JobEvent, self.work_times.hear)
        hub.subscribe(events.EngineReady, self._ready)
        hub.subscribe(events.StageProgress, self._progress)
        hub.subscribe(events.JobStarted, self._start)
        hub.subscribe(events.JobPaused, self._pause)
        for ended in (events.JobFinished, events.JobFailed, events.JobCancelled):
            hub.subscribe(ended, self._end)

    def _read(self, event: events.Telemetry) -> None:
        self._reading = event
        self.history.append(Sample(event, self.frames_per_second))
        while event.at - self.history[0].reading.at > HISTORY_S:
            self.history.popleft()
        self.changed.emit()
        self.read.emit()

    def _ready(self, _event: events.EngineReady) -> None:
        self.is_ready = True
        self.changed.emit()

    def _progress(self, event: events.StageProgress) -> None:
        if event.stage in ("upscale", "write"):
            self.frames_per_second = event.frames_per_second or self.frames_per_second
            self.changed.emit()

    def _start(self, event: events.JobStarted) -> None:
        self._jobs_running.add(event.job_id)
        self.changed.emit()

    def _pause(self, _event: events.JobPaused) -> None:
        self.frames_per_second = 0.0
        self.changed.emit()

    def _end(self, event: events.JobEvent) -> None:
        self._jobs_running.discard(event.job_id)
        self.frames_per_second = 0.0
        self.changed.emit()

    @property
    def reading(self) -> events.Telemetry | None:
        """The latest one; its `gpu` is the one that is shown."""
        return None if self._reading is None else self._seen(self._reading)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Readings of the last minute, with the same GPU."""
        return tuple(replace(one, reading=self._seen(one.reading)) for one in self.history)

    @property
    def gpus(self) -> tuple[GpuReading, ...]:
        """GPUs of the latest reading, in the order of their slots."""
        return () if self._reading is None else _gpus(self._reading)

    def show_gpu(self, number: int) -> None:
        """Show another GPU from now on, of the minute before too."""
        self._shown_gpu = number
        self.changed.emit()
        self.read.emit()

    def _seen(self, event: events.Telemetry) -> events.Telemetry:
        shown = next((one for one in event.other_gpus if one.number == self._shown_gpu), event.gpu)
        if shown is event.gpu:
            return event
        others = tuple(one for one in _gpus(event) if one is not shown)
        return replace(event, gpu=shown, other_gpus=others)

    def show_plan(self, plan: Plan | None) -> None:
        """Show the peak of another plan."""
        if plan is not self.plan:
            self.plan = plan
            self.changed.emit()

    @property
    def is_running(self) -> bool:
        """True while a job holds the engine."""
        return bool(self._jobs_running)

    @property
    def planned_bytes(self) -> int:
        """The peak that `plan` predicts for the GPU; 0 for none."""
        return self.plan.device_bytes if self.plan is not None else 0


def _gpus(event: events.Telemetry) -> tuple[GpuReading, ...]:
    found = (*((event.gpu,) if event.gpu is not None else ()), *event.other_gpus)
    return tuple(sorted(found, key=lambda one: one.number))
