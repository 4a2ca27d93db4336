"""Context of a running job: its plan, its control and its events, given to every stage."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from engine.core.control import Control
from engine.hardware.spill_guard import SpillGuard
from engine.hardware.stage_meter import StageMeter, Waits
from engine.pipeline.segments import SegmentLog, SegmentRecord
from engine.pipeline.source_watch import SourceWatch
from engine.protocol.commands import Command
from engine.protocol.events import EventSink, StagesTimed
from engine.protocol.gpu_reading import GpuProcess
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Notice, Plan

logger = logging.getLogger(__name__)

SHORT_PAUSE_S = 2.0  # of a pause in which the model stays on the GPU


class MemoryReleased(Exception):
    """The job was paused and gives its memory back: the running try ends, finished work stays."""


class Throttle:
    """Lets something happen at most every `period` seconds."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._last = -period

    def __call__(self) -> bool:
        """True when it is time again; then the clock starts again."""
        now = time.monotonic()
        if now - self._last < self._period:
            return False
        self._last = now
        return True


class HandOut(Protocol):
    """Has segments made by other processes."""

    def __call__(self, context: JobContext, segments: SegmentLog) -> None:
        """Have missing segments made; this process makes those that are missing afterwards.

        Raises:
            EngineError: Error that keeps any process from making them.
            Cancelled: The user stopped.
        """
        ...


@dataclass(slots=True, kw_only=True)
class JobContext:
    """One running job."""

    job_id: str
    media: MediaInfo
    plan: Plan  # replaced by a smaller one when memory runs out
    control: Control
    events: EventSink
    source: SourceWatch | None = None  # None where another process of the job looks after it
    send: Callable[[Command], None] = lambda command: None  # to the engine thread
    pictures: bool = True  # False: no previews are made
    is_learned_from: bool = True  # False where its time should not change what later plans predict
    is_excerpt: bool = False  # a part to look at: no other stream, no wait for room
    accepts_damage: bool = False  # frames of the source that cannot be read are left out
    uses_last_room: bool = False  # the user let the job go on where a disk is nearly full
    releases_memory: bool = False  # a pause gives the device's memory back
    guard: SpillGuard | None = None  # None where no GPU may spill
    hand_out: HandOut | None = None  # lets other processes make what lacks
    workers_peak_bytes: int = 0  # most main memory that other processes of the job took
    gpu_users: Callable[[], tuple[GpuProcess, ...]] = tuple  # processes that hold GPU memory
    plan_changes: list[Notice] = field(default_factory=list)  # notices of plans that took over
    meter: StageMeter = field(init=False)  # meter of the stages inside "run"
    waits: Waits = field(default_factory=Waits)
    began: float = field(init=False)  # s of `control.work_seconds`
    picture_due: Throttle = field(default_factory=lambda: Throttle(1 / 12))
    preview_due: Throttle = field(default_factory=lambda: Throttle(1.0))
    times_due: Throttle = field(default_factory=lambda: Throttle(1.0))

    def __post_init__(self) -> None:
        self.meter = StageMeter(self.control.work_seconds)
        self.began = self.control.work_seconds()

    def check_source(self, record: SegmentRecord | None = None) -> None:
        """Called before anything that was made of the source counts.

        Args:
            record: Only what this segment was made of is looked at, with the segments around it.

        Raises:
            CheckpointMismatch: The source has changed since the job began.
            SourceMissing, SourceUnreadable: It has gone.
        """
        if self.source is None:
            return
        if record is None:
            self.source.check()
        else:
            around = self.plan.segment_frames
            self.source.check(record.pts[0] - around, record.pts[-1] + around)

    def end_piece(self, stage: str) -> None:
        """Called by the device's thread where a piece of a stage's work has ended.

        Args:
            stage: Name as in `StagesTimed`; the time since the last call is counted for it.
        """
        self.meter.end(stage)
        if self.times_due():
            seconds = self.meter.seconds()
            waits_for, waiting = self.waits.of(seconds)
            if self.plan.work.device == "cpu":  # which reads and writes, too
                waits_for, waiting = "", 0.0
            timed = StagesTimed(
                job_id=self.job_id, seconds=seconds, waits_for=waits_for, waiting=waiting
            )
            self.events.emit(timed)
            logger.debug("seconds of stages: %s; waits for %s", seconds, waits_for or "nothing")

    def check(self, kind: str = "", *, may_end: bool = True) -> None:
        """Called by the device's thread between pieces of work: waits while paused.

        Args:
            kind: Kind of the work that has just ended; pieces of one kind take the same time.
            may_end: Whether finished work is kept if this try ends here.

        Raises:
            Cancelled: The job was cancelled.
            MemoryReleased: It is paused, and not just for a moment.
            Spilled: The GPU's memory does not suffice any more.
        """
        is_releasing = self.releases_memory and may_end
        if is_releasing and not self.control.resumes_within(SHORT_PAUSE_S):
            raise MemoryReleased
        self.control.check()
        if self.guard is not None:
            self.guard.check(kind)
