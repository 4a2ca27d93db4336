"""Case `workers`: jobs made by several worker processes; equal files, speed, costs of a span.

Idle workers make nothing: they show what handing out costs by itself, and how many spans one host
serves. Everything else is real: Dask, its messages through TLS, records and events.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import queue
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import av
import psutil
from distributed import Worker
from distributed.security import Security

from engine.bench.jobs import RATE, SegmentList, SyntheticClip, TimedJob, run_once
from engine.bench.report import Row
from engine.bench.run import BenchOptions
from engine.bench.workload import write_seedvr2
from engine.core.control import Control
from engine.core.geometry import Size
from engine.core.serialization import to_plain
from engine.hardware import devices
from engine.pipeline.context import JobContext
from engine.pipeline.prepare import Machine, make_plan
from engine.pipeline.segments import SegmentLog, SegmentRecord, Span, made_path
from engine.planner.workers import span_length
from engine.protocol.events import Event, PreviewReady
from engine.protocol.media import FrameMark, MediaInfo
from engine.protocol.plan import Plan, WorkerPlan
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.read.probe import probe
from engine.workers.hand_out import hand_out
from engine.workers.pool import SpanFuture, WorkerPool
from engine.workers.reports import Made, Report
from engine.workers.worker import JobOrder, SpanWorker

_SEGMENT_S = 1.0
_PARTS = 8  # of the channels of SeedVR2's VAE, of which it gets one
_AHEAD, _HANDED_OUT = 16, 3  # spans of each worker, as in `hand_out`
_START_S = 120.0


def worker_rows(options: BenchOptions) -> Iterator[Row]:
    """Lite and a small SeedVR2 with one worker and with as many as cores; then spans alone.

    Spans are as long as a plan makes them for as many workers as cores. The video of SeedVR2 has
    shots of four seconds: a span that begins inside one computes the frames before it again.

    Speeds are next to one worker: `speedup` by the clock, its start, joining and comparison
    included, so only a job that computes for minutes shows it; `cpu_speedup` the workers over what
    their CPU time grew by, which is the speed of an idle computer. Each worker has one core for all
    its threads: a single one would read and encode on another one, and then more workers than one
    could gain less than there are cores. With several `runs` they run in turns, and medians count.
    """
    size = options.size or Size(320, 180)
    frames = options.frames[0] if options.frames else (96 if options.quick else 3000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        media = SyntheticClip(folder, size, frames).media
        lite = JobSettings(model="lite", treatment="faithful")
        yield from _rows("lite", media, lite, folder, options)
        few = SyntheticClip(folder, Size(64, 48), frames // 6, shot=4 * RATE).media
        yield from _rows("seedvr2", few, write_seedvr2(folder, parts=_PARTS), folder, options)
        yield from span_rows(folder, 200 if options.quick else 2000, options.rounds(3))


def _rows(
    model: str, media: MediaInfo, settings: JobSettings, folder: Path, options: BenchOptions
) -> Iterator[Row]:
    plan = planned(media, replace(settings, segment_seconds=_SEGMENT_S, codec="h264"), folder)
    counts = sorted({1, devices.cpu_threads()})
    span = span_length(plan, counts[-1])
    found: dict[int, list[TimedJob]] = {count: [] for count in counts}
    for turn in range(options.rounds(1)):
        for count in counts[:: -1 if turn % 2 else 1]:
            job = with_workers(plan, count, span)
            found[count].append(run_once(media, job, folder, hand_out=hand_out_by_core))
    for count in counts:
        yield {"model": model, **_row(found[count], found[1])}


class _OfOneCore(SpanWorker):
    """Uses one core for all its threads: they come from the one that sets it up."""

    def setup(self, worker: Worker) -> None:
        """Begin, in the main thread of the worker process."""
        process = psutil.Process()
        cores = process.cpu_affinity()
        process.cpu_affinity([cores[int(worker.name) % len(cores)]])
        super().setup(worker)


def hand_out_by_core(context: JobContext, segments: SegmentLog) -> None:
    """Hand out as `hand_out` does, to workers of one core each."""
    hand_out(context, segments, worker=_OfOneCore)


def _row(jobs: list[TimedJob], of_one: list[TimedJob]) -> Row:
    count = len(jobs[0].plan.workers)
    pairs = list(zip(of_one, jobs, strict=True))
    return {
        "workers": count,
        "wall_s": median(job.wall_s for job in jobs),
        "run_s": median(job.steps["run"].wall_s for job in jobs),
        "own_cpu_s": median(job.cpu_s for job in jobs),
        "workers_cpu_s": median(job.workers_cpu_s for job in jobs),
        "speedup": median(one.wall_s / job.wall_s for one, job in pairs),
        "cpu_speedup": median(count * _all_cpu(one) / _all_cpu(job) for one, job in pairs),
        "is_equal": all(job.digest == of_one[0].digest for job in jobs),
    }


def planned(media: MediaInfo, settings: JobSettings, folder: Path) -> Plan:
    """The plan of a job whose only process has one thread."""
    machine = Machine(settings=EngineSettings(threads=1), jobs_folder=folder)
    plan = make_plan(media, settings, folder / "result.mkv", machine)
    return replace(plan, picture=replace(plan.picture, threads=1))


def with_workers(plan: Plan, count: int, span: int = 1) -> Plan:
    """A plan with some worker processes, and spans of some segments."""
    return replace(plan, workers=(WorkerPlan(),) * count, span_segments=span)


def span_rows(folder: Path, spans: int, turns: int = 1) -> Iterator[Row]:
    """Costs of a span by itself: of one frame of 32x32, copied as it is.

    The same video is made by one process, by a worker that gets all in one span, and by one that
    gets each frame as a span of its own, in turns; medians count. The second less the first is the
    `start` of a worker; the third less the second is the `overhead` of each span. What belongs to
    any segment (its encoder, its place on the disk, its record) is in all three. `with_start_ms` is
    the third less the first. Then workers make nothing. A whole job of those has everything else
    that a job does: messages of both sides, records, events. Of 1 and of 64 in another process what
    is left is Dask: how many spans a second this process can hand out.
    """
    media, plan = empty_film(folder, spans)
    plans = (plan, with_workers(plan, 1, span=spans), with_workers(plan, 1))
    jobs = [[run_once(media, each, folder) for each in plans] for _ in range(turns)]

    def more(of: int, than: int, seconds: Callable[[TimedJob], float]) -> float:
        return median(seconds(turn[of]) - seconds(turn[than]) for turn in jobs)

    yield {
        "spans": spans,
        "alone_ms": 1000 * median(_run_s(turn[0]) for turn in jobs) / spans,
        "start_s": more(1, 0, _run_s),
        "start_cpu_s": more(1, 0, _all_cpu),
        "overhead_ms": 1000 * more(2, 1, _run_s) / spans,
        "overhead_cpu_ms": 1000 * more(2, 1, _all_cpu) / spans,
        "with_start_ms": 1000 * more(2, 0, _run_s) / spans,
        "with_start_cpu_ms": 1000 * more(2, 0, _all_cpu) / spans,
        "is_equal": len({job.digest for turn in jobs for job in turn}) == 1,
    }
    before = sum(os.times()[2:4])
    idle = whole_job(media, plan, folder)
    yield {
        "empty_spans": spans,
        "host_cpu_ms": 1000 * idle.cpu_s / spans,
        "worker_cpu_ms": 1000 * (sum(os.times()[2:4]) - before) / spans,
        "wall_ms": 1000 * idle.wall_s / spans,
    }
    order = JobOrder(job_id="bench", media=media, plan=plan, folder=folder)
    for count in (1, 64):
        host_s = served(order, count, spans).cpu_s / spans
        yield {"idle_workers": count, "host_cpu_ms": 1000 * host_s, "spans_per_second": 1 / host_s}


def _all_cpu(job: TimedJob) -> float:
    return job.cpu_s + job.workers_cpu_s


def _run_s(job: TimedJob) -> float:
    return job.steps["run"].wall_s


def empty_film(folder: Path, frames: int) -> tuple[MediaInfo, Plan]:
    """A video of frames that are copied as they are, and a plan with a segment for each."""
    media = _small_film(folder / "small.mkv", frames)
    settings = JobSettings(model="none", scale=1, codec="ffv1")
    return media, replace(planned(media, settings, folder), segment_frames=1)


def _small_film(path: Path, frames: int) -> MediaInfo:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=Fraction(25))
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for _ in range(frames):
            container.mux(stream.encode(av.VideoFrame(32, 32, "yuv420p")))
        container.mux(stream.encode(None))
    return probe(path)


# --- idle workers


class Idle(SpanWorker):
    """Waits instead of making a span, and reports that its one segment is finished."""

    def __init__(self, order: JobOrder, seconds: float = 0.0) -> None:
        super().__init__(order)
        self._seconds = seconds

    def make(self, span: Span) -> PreviewReady | None:
        """Wait for the given seconds."""
        if self._seconds:
            time.sleep(self._seconds)
        times = tuple(range(span.done, span.done + 1 if span.stop is None else span.stop))
        record = SegmentRecord(
            number=span.first,
            pts=times,
            durations=(1,) * len(times),
            bytes=0,
            crcs=(0,) * len(times),
            begins=span.done,
        )
        made_path(self._order.folder, span.first, self._number).touch()
        self.report("segment", to_plain(record))
        self.report("made", to_plain(Made(first=span.first)))
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOut:
    """Times of spans that were handed out to idle workers; CPU seconds of this process."""

    wall_s: float
    cpu_s: float


class NoEvents:
    """An EventSink that drops all events."""

    def emit(self, event: Event) -> None:
        """Take one event."""


def whole_job(media: MediaInfo, plan: Plan, folder: Path) -> HandedOut:
    """Hand a video out to one process, with all that a job does around it; with its start.

    Args:
        media: The video.
        plan: Plan of the job; its spans are of one segment.
        folder: Folder of the job.
    """
    context = JobContext(
        job_id="bench",
        media=media,
        plan=replace(plan, workers=(WorkerPlan(),), span_segments=1),
        control=Control(),
        events=NoEvents(),
        pictures=False,
    )
    wall, cpu = time.perf_counter(), time.process_time()
    hand_out(context, SegmentList(folder), worker=Idle)
    return HandedOut(wall_s=time.perf_counter() - wall, cpu_s=time.process_time() - cpu)


def served(order: JobOrder, workers: int, spans: int, seconds: float = 0.0) -> HandedOut:
    """Hand spans out to many workers of another process, which have started before.

    Args:
        order: Order of a job, for its folder.
        workers: Number of workers.
        spans: Number of spans.
        seconds: Time of a worker for a span.
    """
    ended: queue.SimpleQueue[SpanFuture | Report] = queue.SimpleQueue()
    idle = Idle(order, seconds)
    with WorkerPool(idle, order.folder, 0, ended.put) as pool, _elsewhere(pool, idle, workers):
        there: set[int] = set()
        while len(there) < workers:
            there |= _serve(pool, ended, workers, workers)
        wall, cpu = time.perf_counter(), time.process_time()
        _serve(pool, ended, workers, spans)
        return HandedOut(wall_s=time.perf_counter() - wall, cpu_s=time.process_time() - cpu)


def _serve(
    pool: WorkerPool, ended: queue.SimpleQueue[SpanFuture | Report], workers: int, spans: int
) -> set[int]:
    """Hand out spans as `hand_out` does, until all are made; returns the workers that made them."""
    left = [
        Span(first=number, marks=(FrameMark(count=number + 1, pts=0, crc=0),) * 2, stop=number + 2)
        for number in range(spans)
    ]
    futures: set[SpanFuture] = set()
    there: set[int] = set()
    while left or futures:
        if left and len(futures) < _HANDED_OUT * workers:
            futures |= set(pool.hand_out(left[: _AHEAD * workers]))
            del left[: _AHEAD * workers]
        found = ended.get(timeout=_START_S)
        if isinstance(found, Report):
            there.add(found.number)
        else:
            futures.remove(found)
            if found.status == "error":
                found.result()  # raises it
    return there


@contextmanager
def _elsewhere(pool: WorkerPool, idle: Idle, count: int) -> Iterator[None]:
    """Workers in one other process."""
    process = multiprocessing.get_context("spawn").Process(
        target=_run, args=(pool.address, pool.security, idle, count), daemon=True
    )
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _run(address: str, security: Security, idle: Idle, count: int) -> None:
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    asyncio.run(_all(address, security, idle, count))


async def _all(address: str, security: Security, idle: Idle, count: int) -> None:
    about: dict[str, Any] = {"security": security, "nthreads": 1, "memory_limit": 0}
    workers: list[Any] = [
        Worker(address, name=str(number), plugins=(copy(idle),), **about) for number in range(count)
    ]
    await asyncio.gather(*workers)
    for one in workers:  # at last they end with the scheduler
        await one.finished()
