"""Jobs made by several worker processes: equal files, speed, and what a span costs by itself."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from statistics import median

import av
import psutil
from distributed import Worker

from engine.bench.cases import idle_workers
from engine.bench.clips import RATE, SyntheticClip
from engine.bench.options import BenchOptions
from engine.bench.random_model_files import write_seedvr2
from engine.bench.report.machine import Row
from engine.bench.timing.one_job import TimedJob, run_once
from engine.core.geometry import Size
from engine.hardware import devices
from engine.pipeline.context import JobContext
from engine.pipeline.prepare import Machine, make_plan
from engine.pipeline.segments import SegmentLog
from engine.planner.workers import span_length
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan, WorkerPlan
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.read.probe import probe
from engine.workers.hand_out import hand_out
from engine.workers.worker import JobOrder, SpanWorker

_SEGMENT_S = 1.0
_PARTS = 8  # of the channels of SeedVR2's VAE, of which it gets one


def worker_rows(options: BenchOptions) -> Iterator[Row]:
    """Lite and a small SeedVR2 with one worker and with as many as cores; then spans alone.

    Spans are as long as a plan makes them for as many workers as cores. SeedVR2's film has shots of
    four seconds: a span that begins inside one computes the frames before it again.

    Speeds are next to one worker: `speedup` by the clock, its start, joining and comparison
    included, so only a job that computes for minutes shows it; `cpu_speedup` the workers over what
    their CPU time grew by, which is the speed of a machine that has nothing else to do. Each worker
    has one core for all its threads: a single one would read and encode on another one, and then
    more workers than one could gain less than there are cores. With several `runs` they run in
    turns, and medians count.
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
        yield from span_rows(folder, 200 if options.quick else 2000, _turns(options, 3))


def _rows(
    model: str, media: MediaInfo, settings: JobSettings, folder: Path, options: BenchOptions
) -> Iterator[Row]:
    plan = planned(media, replace(settings, segment_seconds=_SEGMENT_S, codec="h264"), folder)
    counts = sorted({1, devices.cpu_threads()})
    span = span_length(plan, counts[-1])
    found: dict[int, list[TimedJob]] = {count: [] for count in counts}
    for turn in range(_turns(options, 1)):
        for count in counts[:: -1 if turn % 2 else 1]:
            job = with_workers(plan, count, span)
            found[count].append(run_once(media, job, folder, hand_out=hand_out_by_core))
    for count in counts:
        yield {"model": model, **_row(found[count], found[1])}


class _OfOneCore(SpanWorker):
    """Has one core for all its threads: they come from the one that sets it up."""

    def setup(self, worker: Worker) -> None:
        """Begin, in the main thread of the worker process."""
        process = psutil.Process()
        cores = process.cpu_affinity()
        process.cpu_affinity([cores[int(worker.name) % len(cores)]])
        super().setup(worker)


def hand_out_by_core(context: JobContext, segments: SegmentLog) -> None:
    """As `hand_out`, to workers of one core each."""
    hand_out(context, segments, worker=_OfOneCore)


def _turns(options: BenchOptions, usual: int) -> int:
    return options.runs or (1 if options.quick else usual)


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
    """The same with some worker processes, and spans of some segments."""
    return replace(plan, workers=(WorkerPlan(),) * count, span_segments=span)


def span_rows(folder: Path, spans: int, turns: int = 1) -> Iterator[Row]:
    """What a span costs by itself: of one frame of 32x32, copied as it is.

    The same film is made by one process, by a worker that gets all in one span, and by one that
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
    idle = idle_workers.whole_job(media, plan, folder)
    yield {
        "empty_spans": spans,
        "host_cpu_ms": 1000 * idle.cpu_s / spans,
        "worker_cpu_ms": 1000 * (sum(os.times()[2:4]) - before) / spans,
        "wall_ms": 1000 * idle.wall_s / spans,
    }
    order = JobOrder(job_id="bench", media=media, plan=plan, folder=folder)
    for count in (1, 64):
        host_s = idle_workers.served(order, count, spans).cpu_s / spans
        yield {"idle_workers": count, "host_cpu_ms": 1000 * host_s, "spans_per_second": 1 / host_s}


def _all_cpu(job: TimedJob) -> float:
    return job.cpu_s + job.workers_cpu_s


def _run_s(job: TimedJob) -> float:
    return job.steps["run"].wall_s


def empty_film(folder: Path, frames: int) -> tuple[MediaInfo, Plan]:
    """A film of frames that are copied as they are, and a plan with a segment for each."""
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
