"""One job from file to verified file in this process, and the processor time it took."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from engine.core.control import Control
from engine.pipeline.context import Context
from engine.pipeline.run import run_job
from engine.pipeline.segments import SegmentRecord
from engine.protocol.events import Event, StageStarted
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds of one step: of all threads of the process, and of the clock."""

    cpu_s: float
    wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a job took.

    Attributes:
        cpu_s: Of all threads of the process.
        wall_s: From start to finish.
        plan: As it ended.
        report: What was proved about the result.
        steps: What each step took: "run", "mux", "verify".
    """

    cpu_s: float
    wall_s: float
    plan: Plan
    report: Report
    steps: dict[str, Spent]


def run_once(media: MediaInfo, plan: Plan, folder: Path, control: Control | None = None) -> Ran:
    """Run a job that teaches nothing to later plans; its result and its segments are removed.

    Args:
        media: The source.
        plan: What is done with it.
        folder: For the segments.
        control: Stops it.

    Raises:
        EngineError: As `run_job`.
        Cancelled: `control` says so.
    """
    steps, log = _Steps(), _Log(folder)
    context = Context(
        job_id="bench",
        media=media,
        plan=plan,
        control=control or Control(),
        events=steps,
        pictures=False,
        teaches=False,
    )
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        report = run_job(context, log, overwrite=True)
    finally:
        log.remove()
    took = time.process_time() - cpu
    found = Ran(
        cpu_s=took,
        wall_s=time.perf_counter() - wall,
        plan=context.plan,
        report=report,
        steps=steps.spent(),
    )
    _remove(plan.output)
    return found


@dataclass(slots=True)
class _Steps:
    """An EventSink that notes when each step of the job began."""

    marks: list[tuple[str, float, float]] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        """Note the beginning of a step."""
        if isinstance(event, StageStarted):
            self._mark(event.stage)

    def spent(self) -> dict[str, Spent]:
        """What each step took; the last one ends now."""
        self._mark("")
        return {
            name: Spent(cpu_s=cpu_end - cpu, wall_s=wall_end - wall)
            for (name, cpu, wall), (_, cpu_end, wall_end) in pairwise(self.marks)
        }

    def _mark(self, name: str) -> None:
        self.marks.append((name, time.process_time(), time.perf_counter()))


class _Log:
    """A SegmentLog that is kept in memory: nothing here is worth resuming."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._records: list[SegmentRecord] = []
        self._complete = False

    @property
    def records(self) -> list[SegmentRecord]:
        """Finished segments."""
        return self._records

    @property
    def is_complete(self) -> bool:
        """True when the last frame is among them."""
        return self._complete

    def path(self, number: int) -> Path:
        """File of a segment."""
        return self._folder / f"{number:06d}.segment"

    def add(self, record: SegmentRecord) -> None:
        """Keep a segment."""
        self._records.append(record)

    def complete(self) -> None:
        """There is nothing more."""
        self._complete = True

    def remove(self) -> None:
        """Delete the segments."""
        for record in self._records:
            self.path(record.number).unlink(missing_ok=True)


def _remove(output: Path) -> None:
    if output.is_dir():
        shutil.rmtree(output, ignore_errors=True)
    else:
        output.unlink(missing_ok=True)
