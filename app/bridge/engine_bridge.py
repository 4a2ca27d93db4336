"""Events of the engine's threads become Qt signals in the window's thread, in their order."""

from __future__ import annotations

import queue
from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from engine.protocol import events

DRAIN_MS = 33  # about 30 times a second
_MOST_AT_ONCE = 400  # events of one drain; the rest waits 33 ms, so that painting gets its turn


class EngineBridge(QObject):
    """An EventSink on one side, a typed signal for each class of event on the other.

    Memory: the queue holds what one drain interval brings; progress that a later event of the
    same stage supersedes is dropped before anybody sees it.
    """

    job_queued = Signal(events.JobQueued)
    job_rejected = Signal(events.JobRejected)
    job_removed = Signal(events.JobRemoved)
    plan_chosen = Signal(events.PlanChosen)
    plan_failed = Signal(events.PlanFailed)
    plan_downgraded = Signal(events.PlanDowngraded)
    job_started = Signal(events.JobStarted)
    stage_started = Signal(events.StageStarted)
    stage_progress = Signal(events.StageProgress)
    tile_done = Signal(events.TileDone)
    preview_ready = Signal(events.PreviewReady)
    segment_done = Signal(events.SegmentDone)
    warned = Signal(events.Warned)
    job_paused = Signal(events.JobPaused)
    job_resumed = Signal(events.JobResumed)
    job_finished = Signal(events.JobFinished)
    job_failed = Signal(events.JobFailed)
    job_cancelled = Signal(events.JobCancelled)
    latent_read = Signal(events.LatentRead)
    latent_shown = Signal(events.LatentShown)
    latent_refused = Signal(events.LatentRefused)
    weights_listed = Signal(events.WeightsListed)
    weights_progress = Signal(events.WeightsProgress)
    weights_done = Signal(events.WeightsDone)
    weights_failed = Signal(events.WeightsFailed)
    weights_stopped = Signal(events.WeightsStopped)
    runtimes_listed = Signal(events.RuntimesListed)
    runtime_progress = Signal(events.RuntimeProgress)
    runtime_done = Signal(events.RuntimeDone)
    runtime_failed = Signal(events.RuntimeFailed)
    runtime_stopped = Signal(events.RuntimeStopped)
    presets_listed = Signal(events.PresetsListed)
    preset_failed = Signal(events.PresetFailed)
    bench_progress = Signal(events.BenchProgress)
    bench_done = Signal(events.BenchDone)
    bench_failed = Signal(events.BenchFailed)
    telemetry = Signal(events.Telemetry)
    engine_ready = Signal(events.EngineReady)
    engine_closed = Signal(events.EngineClosed)
    event_seen = Signal(object)  # every event, before its own signal: models come first

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._queue: queue.SimpleQueue[events.Event] = queue.SimpleQueue()
        self._timer = QTimer(self)
        self._timer.setInterval(DRAIN_MS)
        self._timer.timeout.connect(self.drain)
        self._timer.start()

    def emit(self, event: events.Event) -> None:
        """Take one event; called from any thread, returns at once."""
        self._queue.put(event)

    def drain(self) -> None:
        """Hand on what has come since the last time; runs in the window's thread."""
        taken: list[events.Event] = []
        while len(taken) < _MOST_AT_ONCE:
            try:
                taken.append(self._queue.get_nowait())
            except queue.Empty:
                break
        for event in without_superseded(taken):
            self._announce(event)

    def _announce(self, event: events.Event) -> None:
        self.event_seen.emit(event)
        match event:
            case events.StageProgress():
                self.stage_progress.emit(event)
            case events.TileDone():
                self.tile_done.emit(event)
            case events.Telemetry():
                self.telemetry.emit(event)
            case events.PreviewReady():
                self.preview_ready.emit(event)
            case events.SegmentDone():
                self.segment_done.emit(event)
            case events.JobQueued():
                self.job_queued.emit(event)
            case events.JobRejected():
                self.job_rejected.emit(event)
            case events.JobRemoved():
                self.job_removed.emit(event)
            case events.PlanChosen():
                self.plan_chosen.emit(event)
            case events.PlanFailed():
                self.plan_failed.emit(event)
            case events.PlanDowngraded():
                self.plan_downgraded.emit(event)
            case events.JobStarted():
                self.job_started.emit(event)
            case events.StageStarted():
                self.stage_started.emit(event)
            case events.Warned():
                self.warned.emit(event)
            case events.JobPaused():
                self.job_paused.emit(event)
            case events.JobResumed():
                self.job_resumed.emit(event)
            case events.JobFinished():
                self.job_finished.emit(event)
            case events.JobFailed():
                self.job_failed.emit(event)
            case events.JobCancelled():
                self.job_cancelled.emit(event)
            case events.LatentRead():
                self.latent_read.emit(event)
            case events.LatentShown():
                self.latent_shown.emit(event)
            case events.LatentRefused():
                self.latent_refused.emit(event)
            case events.WeightsProgress():
                self.weights_progress.emit(event)
            case events.WeightsListed():
                self.weights_listed.emit(event)
            case events.WeightsDone():
                self.weights_done.emit(event)
            case events.WeightsFailed():
                self.weights_failed.emit(event)
            case events.WeightsStopped():
                self.weights_stopped.emit(event)
            case events.RuntimeProgress():
                self.runtime_progress.emit(event)
            case events.RuntimesListed():
                self.runtimes_listed.emit(event)
            case events.RuntimeDone():
                self.runtime_done.emit(event)
            case events.RuntimeFailed():
                self.runtime_failed.emit(event)
            case events.RuntimeStopped():
                self.runtime_stopped.emit(event)
            case events.PresetsListed():
                self.presets_listed.emit(event)
            case events.PresetFailed():
                self.preset_failed.emit(event)
            case events.BenchProgress():
                self.bench_progress.emit(event)
            case events.BenchDone():
                self.bench_done.emit(event)
            case events.BenchFailed():
                self.bench_failed.emit(event)
            case events.EngineReady():
                self.engine_ready.emit(event)
            case events.EngineClosed():
                self.engine_closed.emit(event)


def without_superseded(taken: Sequence[events.Event]) -> list[events.Event]:
    """The same events in the same order, less progress that a later one of its stage replaces."""
    seen: set[tuple[str, ...]] = set()
    kept: list[events.Event] = []
    for event in reversed(taken):
        if isinstance(event, events.StageProgress):
            key: tuple[str, ...] = ("progress", event.job_id, event.stage)
        elif isinstance(event, events.WeightsProgress):
            key = ("weights", event.file)
        elif isinstance(event, events.RuntimeProgress):
            key = ("runtime", event.runtime, event.phase)
        elif isinstance(event, events.Telemetry | events.BenchProgress):
            key = (type(event).__name__,)
        else:
            kept.append(event)
            continue
        if key not in seen:
            seen.add(key)
            kept.append(event)
    kept.reverse()
    return kept
