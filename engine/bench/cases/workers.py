"""Jobs made by several worker processes: equal files, speed, and what a span costs by itself."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av

from engine.bench.clips import SyntheticClip
from engine.bench.options import BenchOptions
from engine.bench.random_model_files import write_seedvr2
from engine.bench.report.machine import Row
from engine.bench.timing.one_job import TimedJob, run_once
from engine.core.geometry import Size
from engine.pipeline.prepare import Machine, make_plan
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan, WorkerPlan
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.read.probe import probe

_COUNTS = (1, 2, 4)
_SEGMENT_S = 1.0
_PARTS = 8  # of the channels of SeedVR2's VAE, of which it gets one


def worker_rows(options: BenchOptions) -> Iterator[Row]:
    """Lite and a small SeedVR2 with 1, 2 and 4 processes of one thread, next to none.

    `speedup` is by the clock, model and start of the processes included; `cpu_share` is CPU time
    without workers over that with them, which what else runs on the machine hardly changes.
    """
    size = options.size or Size(320, 180)
    frames = options.frames[0] if options.frames else (96 if options.quick else 480)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        media = SyntheticClip(folder, size, frames).media
        yield from _rows("lite", media, JobSettings(model="lite", treatment="faithful"), folder)
        few = SyntheticClip(folder, Size(64, 48), frames // 4).media
        yield from _rows("seedvr2", few, write_seedvr2(folder, parts=_PARTS), folder)
        yield _of_a_span(folder, 200 if options.quick else 2000)


def _rows(model: str, media: MediaInfo, settings: JobSettings, folder: Path) -> Iterator[Row]:
    plan = _planned(media, replace(settings, segment_seconds=_SEGMENT_S, codec="h264"), folder)
    alone = run_once(media, plan, folder)
    yield _row(model, alone, alone)
    for count in _COUNTS:
        yield _row(model, run_once(media, _with(plan, count), folder), alone)


def _planned(media: MediaInfo, settings: JobSettings, folder: Path) -> Plan:
    machine = Machine(settings=EngineSettings(threads=1), jobs_folder=folder)
    plan = make_plan(media, settings, folder / "result.mkv", machine)
    return replace(plan, picture=replace(plan.picture, threads=1))


def _with(plan: Plan, count: int, span: int = 1) -> Plan:
    return replace(plan, workers=(WorkerPlan(),) * count, span_segments=span)


def _row(model: str, job: TimedJob, alone: TimedJob) -> Row:
    whole = job.cpu_s + job.workers_cpu_s
    return {
        "model": model,
        "workers": len(job.plan.workers),
        "wall_s": job.wall_s,
        "run_s": job.steps["run"].wall_s,
        "own_cpu_s": job.cpu_s,
        "workers_cpu_s": job.workers_cpu_s,
        "speedup": alone.wall_s / job.wall_s,
        "cpu_share": alone.cpu_s / whole,
        "is_equal": job.digest == alone.digest,
    }


def _of_a_span(folder: Path, spans: int) -> Row:
    """What a span costs where nothing is computed: of one frame of 32x32, copied as it is."""
    media = _small_film(folder / "small.mkv", spans)
    settings = JobSettings(model="none", scale=1, codec="ffv1")
    plan = replace(_planned(media, settings, folder), segment_frames=1)

    def run(plan: Plan) -> TimedJob:
        return run_once(media, plan, folder)

    alone, one = run(plan), run(_with(plan, 1))
    few = run(_with(plan, 1, span=spans))
    return {
        "spans": spans,
        "span_ms": _each(alone, spans, lambda job: job.steps["run"].wall_s),
        "handed_out_ms": _each(one, spans, lambda job: job.steps["run"].wall_s),
        "own_cpu_ms": _each(one, spans, lambda job: job.steps["run"].cpu_s),
        "overhead_ms": 1000 * (one.steps["run"].wall_s - few.steps["run"].wall_s) / spans,
        "overhead_cpu_ms": 1000 * (_all_cpu(one) - _all_cpu(few)) / spans,
        "is_equal": one.digest == alone.digest == few.digest,
    }


def _each(job: TimedJob, spans: int, seconds: Callable[[TimedJob], float]) -> float:
    return 1000 * seconds(job) / spans


def _all_cpu(job: TimedJob) -> float:
    return job.cpu_s + job.workers_cpu_s


def _small_film(path: Path, frames: int) -> MediaInfo:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=Fraction(25))
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for _ in range(frames):
            container.mux(stream.encode(av.VideoFrame(32, 32, "yuv420p")))
        container.mux(stream.encode(None))
    return probe(path)
