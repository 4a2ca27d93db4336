"""The whole program but its start: one job from file to verified file, in this process."""

from __future__ import annotations

import time
from pathlib import Path

from engine.bench.measure import ThreadTimes
from engine.bench.report import Row
from engine.control import Control
from engine.events import Event, StageStarted
from engine.media import MediaInfo
from engine.pipeline.context import Context
from engine.pipeline.prepare import Machine, make_plan
from engine.pipeline.run import run_job
from engine.pipeline.segments import SegmentRecord
from engine.settings.schema import EngineSettings, JobSettings


def run_pipeline(media: MediaInfo, settings: JobSettings, folder: Path) -> Row:
    """Run one job as the command line does, without pictures for a window.

    Returns:
        Frames a second and processor time a frame of everything, then of each step ("run_", "mux_",
        "verify_") and, within the run, of each kind of thread.
    """
    machine = Machine(settings=EngineSettings(tile_previews=False), jobs_folder=folder)
    output = folder / "result.mp4"
    plan = make_plan(media, settings, output, machine)
    steps = _Steps()
    context = Context(
        job_id="bench", media=media, plan=plan, control=Control(), events=steps, pictures=False
    )
    log = _Log(folder)
    try:
        with ThreadTimes() as threads:
            report = run_job(context, log, overwrite=True)
        steps.end()
    finally:
        log.remove()
        output.unlink(missing_ok=True)
    frames = report.frames_out
    row: Row = {
        "dtype": context.plan.model.dtype,
        "frames_per_second": frames / steps.wall("all"),
        "cpu_ms_a_frame": 1000 * steps.cpu("all") / frames,
    }
    row |= {f"{name}_cpu_ms": 1000 * steps.cpu(name) / frames for name in steps.names}
    row |= {f"{name}_wall_ms": 1000 * steps.wall(name) / frames for name in steps.names}
    row |= _by_thread(threads, frames)
    return row | {"verified": report.passed}


def _by_thread(threads: ThreadTimes, frames: int) -> Row:
    names = {"MainThread": "device", "read": "read", "write": "write", "native": "codecs and torch"}
    return {
        f"thread {title} ms": 1000 * threads.seconds.get(name, 0.0) / frames
        for name, title in names.items()
    }


class _Steps:
    """An EventSink that notes when each step of the job began."""

    def __init__(self) -> None:
        self._marks = [("all", time.perf_counter(), time.process_time())]

    def emit(self, event: Event) -> None:
        """Note the beginning of a step."""
        if isinstance(event, StageStarted):
            self._mark(event.stage)

    def end(self) -> None:
        """The last step is over."""
        self._mark("end")

    @property
    def names(self) -> list[str]:
        """Steps in their order."""
        return [name for name, _, _ in self._marks[1:-1]]

    def wall(self, name: str) -> float:
        """Seconds of a step, or of "all"."""
        begin, end = self._between(name)
        return self._marks[end][1] - self._marks[begin][1]

    def cpu(self, name: str) -> float:
        """Processor seconds of a step, or of "all"."""
        begin, end = self._between(name)
        return self._marks[end][2] - self._marks[begin][2]

    def _mark(self, name: str) -> None:
        self._marks.append((name, time.perf_counter(), time.process_time()))

    def _between(self, name: str) -> tuple[int, int]:
        if name == "all":
            return 0, len(self._marks) - 1
        begin = [mark[0] for mark in self._marks].index(name)
        return begin, begin + 1


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
