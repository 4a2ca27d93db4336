"""One job from source to verified result in this process, and the time that each step took."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import psutil

from engine.core.control import Control
from engine.pipeline.context import HandOut, JobContext
from engine.pipeline.output import Publication
from engine.pipeline.run import run_job
from engine.pipeline.segments import FinishedSegments, segment_path
from engine.protocol.events import Event, StageStarted
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Report

_SAMPLE_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Seconds of one step: of all threads of the process, and of the clock."""

    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedJob:
    """A finished job and its times.

    Attributes:
        cpu_s: Of all threads of the process.
        wall_s: From start to end.
        workers_cpu_s: Of all threads of worker processes; 0 on Windows, which does not say.
        segment_bytes: Of all segments.
        digest: SHA-256 of all segments.
        plan: As it was at the end.
        report: Comparison of result and source.
        steps: Times of "run", "mux" and "verify".
    """

    cpu_s: float
    wall_s: float
    workers_cpu_s: float
    segment_bytes: int
    digest: str
    plan: Plan
    report: Report
    steps: dict[str, StepTime]


def run_once(
    media: MediaInfo,
    plan: Plan,
    folder: Path,
    control: Control | None = None,
    hand_out: HandOut | None = None,
) -> TimedJob:
    """Run a job that does not change the rates of later plans; removes result and segments.

    Args:
        media: The source.
        plan: Of the job.
        folder: For the segments.
        control: Cancels it.
        hand_out: Lets workers make the segments; None for the usual one, where the plan has any.

    Raises:
        EngineError: As `run_job`.
        Cancelled: By `control`.
    """
    steps, log = _StepClock(), SegmentList(folder)
    context = JobContext(
        job_id="bench",
        media=media,
        plan=plan,
        control=control or Control(),
        events=steps,
        pictures=False,
        is_learned_from=False,
    )
    if plan.workers and hand_out is None:
        from engine.workers.hand_out import hand_out  # half a second
    context.hand_out = hand_out
    wall, cpu, others = time.perf_counter(), time.process_time(), _seconds_of_others()
    try:
        report = run_job(context, log, overwrite=True)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        digest = log.digest()
    finally:
        log.remove()
    found = TimedJob(
        cpu_s=cpu,
        wall_s=wall,
        workers_cpu_s=_seconds_of_others() - others,
        segment_bytes=sum(record.bytes for record in log),
        digest=digest,
        plan=context.plan,
        report=report,
        steps=steps.times(),
    )
    if plan.output.is_dir():
        shutil.rmtree(plan.output, ignore_errors=True)
    else:
        plan.output.unlink(missing_ok=True)
    return found


@dataclass(slots=True)
class _StepClock:
    """An EventSink that records when each step of the job began."""

    begins: list[tuple[str, float, float]] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        """Record the beginning of a step."""
        if isinstance(event, StageStarted):
            self._record(event.stage)

    def times(self) -> dict[str, StepTime]:
        """Times of all steps; the last one ends now."""
        self._record("")
        return {
            name: StepTime(cpu_s=cpu_end - cpu, wall_s=wall_end - wall)
            for (name, cpu, wall), (_, cpu_end, wall_end) in pairwise(self.begins)
        }

    def _record(self, name: str) -> None:
        self.begins.append((name, time.process_time(), time.perf_counter()))


def _seconds_of_others() -> float:
    """CPU seconds of the processes that this one has started, and that have ended."""
    times = os.times()
    return times.children_user + times.children_system


class SegmentList(FinishedSegments):
    """A SegmentLog in memory: this job is never resumed."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.is_complete = False

    def path(self, number: int) -> Path:
        """File of a segment."""
        return segment_path(self._folder, number)

    def complete(self) -> None:
        """The last segment was added."""
        self.drop(len(self.records))
        self.is_complete = True

    def first_damaged(self, control: Control) -> int | None:
        """Nothing is damaged between writing and joining."""
        return None

    def digest(self) -> str:
        """SHA-256 of all segments, in order."""
        found = hashlib.sha256()
        for record in self:
            found.update(self.path(record.number).read_bytes())
        return found.hexdigest()

    def add_publication(self, publication: Publication) -> None:
        """Nothing to keep."""

    def remove(self) -> None:
        """Delete the segments."""
        for record in self:
            self.path(record.number).unlink(missing_ok=True)


class ThreadTimes:
    """CPU seconds of each thread while inside, by the name of the thread.

    Threads that Python did not start (codecs, torch) are added up as "native". Sampled 20 times a
    second: the last moment of a thread that ends is missed.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._names: dict[int, str] = {}
        self._begin: dict[int, float] = {}
        self._latest: dict[int, float] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="bench", daemon=True)

    def __enter__(self) -> ThreadTimes:
        self._begin = self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._sample()
        for number, seconds in self._latest.items():
            name = self._names.get(number, "native")
            used = seconds - self._begin.get(number, 0.0)
            self.seconds[name] = self.seconds.get(name, 0.0) + used

    def _watch(self) -> None:
        while not self._is_over.wait(_SAMPLE_S):
            self._sample()

    def _sample(self) -> dict[int, float]:
        for thread in threading.enumerate():
            if thread.native_id is not None:
                self._names[thread.native_id] = thread.name
        now = {t.id: t.user_time + t.system_time for t in psutil.Process().threads()}
        self._latest |= now
        return now
