"""Many workers at one film: what a job of one worker took, and what it says of up to 64.

A real job is recorded in CPU seconds, which other work on the machine changes little: those of the
worker for each span, those of this process for reading ahead, for a span and for joining. The
simulation then makes a film of two hours of it, with links and with faster workers.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, median

from engine.bench.cases import idle_workers
from engine.bench.cases.workers import empty_film, planned, with_workers
from engine.bench.clips import SyntheticClip
from engine.bench.farm import LOCAL, Link, SpanTimes, simulate
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.one_job import SegmentList, run_once
from engine.core.control import Control
from engine.core.geometry import Size
from engine.pipeline.context import JobContext
from engine.pipeline.segments import Span
from engine.planner.workers import span_segments
from engine.protocol.events import Event, PreviewReady
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from engine.video.read.frame_reader import FrameReader
from engine.workers.hand_out import hand_out
from engine.workers.survey import Survey
from engine.workers.worker import SpanWorker

COUNTS = (1, 2, 4, 8, 16, 32, 64)
LINKS = {
    "none": LOCAL,
    "1 Gbit/s": Link(mbit_s=940, latency_s=0.0005),
    "100 Mbit/s": Link(mbit_s=94, latency_s=0.002),
    "20 Mbit/s": Link(mbit_s=20, latency_s=0.02),
}
FASTER = (1, 10, 100)  # workers next to the recorded one
_FILM_FRAMES = 2 * 3600 * 24
_SEGMENT_FRAMES = 240  # of that film
_RECORDED_SEGMENTS = 6  # of the job: the first one does not count, the models load with it
_WAIT_S = 0.5  # of an idle worker for a span
_WAITING_SPANS = 48


class Timed(SpanWorker):
    """Writes down the CPU seconds of each span."""

    def make(self, span: Span) -> PreviewReady | None:
        """Make it."""
        begin = time.process_time()
        preview = super().make(span)
        with (self._order.folder / "span_seconds").open("a", encoding="ascii") as file:
            file.write(json.dumps(time.process_time() - begin) + "\n")
        return preview


def farm_rows(options: BenchOptions) -> Iterator[Row]:
    """The recorded job; the simulation next to real processes that wait; then the farms."""
    size = options.size or (Size(320, 180) if options.quick else Size(640, 360))
    frames = options.frames[0] if options.frames else 8
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        media = SyntheticClip(folder, size, frames * _RECORDED_SEGMENTS).media
        times = recorded(media, folder, frames)
        yield {"recorded": "lite", "width": size.width, "height": size.height, **times}
        yield from _compared(folder)
    yield from simulated_rows(times)


def recorded(media: MediaInfo, folder: Path, frames: int) -> dict[str, float]:
    """Seconds and bytes of each frame of a job of one worker, in CPU seconds.

    `host_s` is of each span, and `start_s` of a worker.
    """
    settings = JobSettings(model="lite", treatment="faithful", codec="h264")
    plan = replace(planned(media, settings, folder), segment_frames=frames)
    job = run_once(media, with_workers(plan, 1), folder, hand_out=partial(hand_out, worker=Timed))
    lines = (folder / "span_seconds").read_text(encoding="ascii").splitlines()
    spans = [float(line) for line in lines][1:]
    all_frames = media.video.frame_count
    idle, idle_plan = empty_film(folder, 200)
    return {
        "span_s": fmean(spans) / frames,
        "survey_s": _survey_s(media, plan, folder) / all_frames,
        "source_bytes": media.path.stat().st_size / all_frames,
        "result_bytes": job.segment_bytes / all_frames,
        "join_s": sum(job.steps[step].cpu_s for step in ("mux", "verify")) / all_frames,
        "host_s": idle_workers.host_seconds(idle, idle_plan, folder, 1, 200),
        "start_s": job.workers_cpu_s - sum(spans) - median(spans),
    }


class _Quiet:
    """Nobody listens."""

    def emit(self, event: Event) -> None:
        """Take one event."""


def _survey_s(media: MediaInfo, plan: Plan, folder: Path) -> float:
    context = JobContext(job_id="bench", media=media, plan=plan, control=Control(), events=_Quiet())
    begin = time.process_time()
    with FrameReader(media) as reader:
        for _ in Survey(context, SegmentList(folder), reader).spans():
            pass
    return time.process_time() - begin


def _compared(folder: Path) -> Iterator[Row]:
    """Real processes that wait instead of computing, and the same simulated.

    Their start is what one worker took above its spans; from then on nothing is adapted.
    """
    media, plan = empty_film(folder, _WAITING_SPANS)
    start = 0.0
    for count in (1, 2, 4):
        found = idle_workers.handed_out(media, plan, folder, count, _WAIT_S)
        start = start or found.wall_s - _WAITING_SPANS * _WAIT_S
        times = SpanTimes(spans=_WAITING_SPANS, span_s=(_WAIT_S,), start_s=start)
        seconds = simulate(times, count).seconds
        yield {
            "waiting_workers": count,
            "measured_s": found.wall_s,
            "simulated_s": seconds,
            "ratio": seconds / found.wall_s,
        }


def film_of(times: dict[str, float], workers: int, faster: float = 1.0) -> SpanTimes:
    """A film of two hours, cut into spans as the planner does for some workers.

    Args:
        times: As `recorded`.
        workers: That share it.
        faster: Than the recorded one, each of them.
    """
    segments = _FILM_FRAMES // _SEGMENT_FRAMES
    length = span_segments(segments, workers, takes_shots=False)
    frames = length * _SEGMENT_FRAMES
    return SpanTimes(
        spans=-(-segments // length),
        span_s=(times["span_s"] * frames / faster,),
        survey_s=times["survey_s"] * frames,
        host_s=times["host_s"],
        source_bytes=times["source_bytes"] * frames,
        result_bytes=times["result_bytes"] * frames,
        join_s=times["join_s"] * _FILM_FRAMES,
        start_s=times["start_s"],
    )


def simulated_rows(times: dict[str, float]) -> Iterator[Row]:
    """A row for each link, speed and number of workers."""
    for name, link in LINKS.items():
        for faster in FASTER:
            one = simulate(film_of(times, 1, faster), 1, link)
            for count in COUNTS:
                found = simulate(film_of(times, count, faster), count, link)
                yield {
                    "link": name,
                    "faster": faster,
                    "workers": count,
                    "seconds": found.seconds,
                    "efficiency": found.efficiency(one),
                    "limit": found.limit,
                    "busy": found.busy[found.limit],
                }
