"""Case `farm`: many workers at one video; a recorded job of one, and a simulation of up to 64.

A real job is recorded in CPU seconds, which other work on the computer changes little: those of the
worker for each span, those of this process for reading ahead, for a span and for joining. The
simulation then makes a video of two hours of it, with links and with faster workers.
"""

from __future__ import annotations

import heapq
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import fmean, median
from typing import Literal

from engine.bench.cases.workers import NoEvents, planned, served, with_workers
from engine.bench.jobs import SegmentList, SyntheticClip, run_once
from engine.bench.report import Row
from engine.bench.run import BenchOptions
from engine.core.control import Control
from engine.core.geometry import Size
from engine.hardware import devices
from engine.pipeline.context import JobContext
from engine.pipeline.segments import Span
from engine.planner.workers import SpanLengths, span_segments
from engine.protocol.events import PreviewReady
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from engine.video.read.frame_reader import FrameReader
from engine.workers.hand_out import hand_out
from engine.workers.spans import Survey
from engine.workers.worker import JobOrder, SpanWorker

Limit = Literal["workers", "survey", "host", "link", "join"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTimes:
    """Seconds and bytes of a job, for each of its spans unless stated otherwise."""

    spans: int
    # A worker of speed 1 takes them; spans of a longer video repeat them in order.
    span_s: tuple[float, ...]
    survey_s: float = 0.0  # the host reads the video ahead
    host_s: float = 0.0  # the host hands out, and receives results
    source_bytes: float = 0.0  # read by a worker
    result_bytes: float = 0.0  # sent back
    join_s: float = 0.0  # joining the whole video, and its comparison with the source
    start_s: float = 0.0  # until a worker is ready

    @property
    def each(self) -> Iterator[float]:
        """Seconds of a worker of speed 1 for each span."""
        return islice(cycle(self.span_s), self.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Link between the host and other computers; each direction is shared by all of them."""

    mbit_s: float = 0.0  # each direction; 0 for no limit
    latency_s: float = 0.0  # one way

    def sending_s(self, count: float) -> float:
        """Seconds that bytes keep the link busy."""
        return 8e-6 * count / self.mbit_s if self.mbit_s else 0.0


LOCAL = Connection()
GIGABIT = Connection(mbit_s=940, latency_s=0.0005)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Result of a simulation."""

    seconds: float  # time until the result is published
    made: tuple[tuple[int, ...], ...]  # spans of each worker, counted from 0
    busy: dict[
        Limit, float
    ]  # share of that time in which each part is at work; workers: their mean

    @property
    def limit(self) -> Limit:
        """Part that is at work for the largest share of the time."""
        return max(self.busy, key=lambda name: self.busy[name])

    def efficiency(self, one: Simulated) -> float:
        """Speed for each worker, next to that of one worker."""
        return one.seconds / self.seconds / len(self.made)


@dataclass(slots=True)
class _Server:
    """Serves one span after the other."""

    free_at: float = 0.0
    busy_s: float = 0.0

    def serve(self, at: float, seconds: float) -> float:
        """Time when something that comes at a time has been served."""
        self.free_at = max(at, self.free_at) + seconds
        self.busy_s += seconds
        return self.free_at


@dataclass(slots=True)
class _Farm:
    """The servers that workers share, and the events that are to come.

    Attributes:
        near: Number of workers, the first ones, that need no link.
        events: Time, whether the result is there (the worker is idle) or not yet, the worker.
    """

    times: SpanTimes
    speeds: Sequence[float]
    link: Connection
    near: int
    host: _Server = field(default_factory=_Server)
    to_workers: _Server = field(default_factory=_Server)
    back: _Server = field(default_factory=_Server)
    workers_s: float = 0.0
    kept_at: float = 0.0  # the last span that is finished
    events: list[tuple[float, bool, int]] = field(default_factory=list)

    def run(self) -> tuple[tuple[int, ...], ...]:
        """Make all spans; those of each worker."""
        made: list[list[int]] = [[] for _ in self.speeds]
        self.events = [(self.times.start_s, True, worker) for worker in range(len(self.speeds))]
        for span, seconds in enumerate(self.times.each):
            while not self.events[0][1]:
                self._come_back()
            at, _, worker = heapq.heappop(self.events)
            known_at = (span + 1) * self.times.survey_s
            made[worker].append(span)
            self._hand_out(max(at, known_at), seconds / self.speeds[worker], worker)
        while self.events:
            if self.events[0][1]:
                heapq.heappop(self.events)
            else:
                self._come_back()
        return tuple(map(tuple, made))

    def _hand_out(self, at: float, seconds: float, worker: int) -> None:
        there = self.host.serve(at, self.times.host_s)
        if worker >= self.near:
            there = self._fetched(there + self.link.latency_s)
        self.workers_s += seconds
        done = there + seconds
        if worker >= self.near:
            heapq.heappush(self.events, (done, False, worker))
        else:
            self._keep(done, worker)

    def _fetched(self, at: float) -> float:
        """Time when a worker that has its order has its part of the source."""
        source, latency = self.times.source_bytes, self.link.latency_s
        asked = at + latency if source else at
        sent = self.to_workers.serve(asked, self.link.sending_s(source))
        return sent + latency if source else sent

    def _come_back(self) -> None:
        """The next result of another computer is sent."""
        at, _, worker = heapq.heappop(self.events)
        result = self.times.result_bytes
        self._keep(self.back.serve(at, self.link.sending_s(result)) + self.link.latency_s, worker)

    def _keep(self, at: float, worker: int) -> None:
        """The result is there, and the worker is free."""
        heapq.heappush(self.events, (at, True, worker))
        self.kept_at = max(self.kept_at, at)


def simulate(
    times: SpanTimes, speeds: Sequence[float], link: Connection = LOCAL, *, near: int = 0
) -> Simulated:
    """Simulate a video that some workers make, by discrete events.

    Whatever serves one span at a time (survey, host, link, worker) is free again at a known time,
    and a span goes through them one after the other. Each span goes to the worker that is free
    first, as `engine.workers` hands them out.

    Args:
        times: Times of a job.
        speeds: Speed of each worker, at least one; of those that are free at the same time the
            first one is next.
        link: Link between the host and other computers.
        near: Number of workers, the first ones, that are processes of the host.
    """
    farm = _Farm(times, speeds, link, near)
    made = farm.run()
    seconds = farm.kept_at + times.join_s
    busy: dict[Limit, float] = {
        "workers": farm.workers_s / len(speeds),
        "survey": times.spans * times.survey_s,
        "host": farm.host.busy_s,
        "link": max(farm.to_workers.busy_s, farm.back.busy_s),
        "join": times.join_s,
    }
    return Simulated(
        seconds=seconds,
        made=made,
        busy={name: value / seconds for name, value in busy.items()},
    )


# --- the recorded job, and farms made of it


COUNTS = (1, 2, 4, 8, 16, 32, 64)
LINKS = {
    "none": LOCAL,
    "1 Gbit/s": GIGABIT,
    "100 Mbit/s": Connection(mbit_s=94, latency_s=0.002),
    "20 Mbit/s": Connection(mbit_s=20, latency_s=0.02),
}
FASTER = (1, 10, 100)  # workers next to the recorded one
_IDLE_SPANS = 500
_FILM_FRAMES = 2 * 3600 * 24
_SEGMENT_FRAMES = 240  # of that video
_RECORDED_SEGMENTS = 6  # of the job: the first one does not count, the models load with it
_WAIT_S = 0.5  # of an idle worker for a span
_WAITING = (1, 2, 4, 16, 64)
_WAITING_SPANS = 16  # of each
Recorded = dict[str, float]


class Timed(SpanWorker):
    """Records the CPU seconds of each span."""

    def make(self, span: Span) -> PreviewReady | None:
        """Make a span."""
        begin = time.process_time()
        preview = super().make(span)
        with (self._order.folder / "span_seconds").open("a", encoding="ascii") as file:
            file.write(json.dumps(time.process_time() - begin) + "\n")
        return preview


def farm_rows(options: BenchOptions) -> Iterator[Row]:
    """The recorded job; the simulation next to what it simulates; then the farms."""
    size = options.size or (Size(320, 180) if options.quick else Size(640, 360))
    frames = options.frames[0] if options.frames else 8
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        media = SyntheticClip(folder, size, frames * _RECORDED_SEGMENTS).media
        settings = JobSettings(model="lite", treatment="faithful", codec="h264")
        plan = replace(planned(media, settings, folder), segment_frames=frames)
        order = JobOrder(job_id="bench", media=media, plan=plan, folder=folder)
        times = recorded(order)
        yield {"recorded": "lite", "width": size.width, "height": size.height, **times}
        yield from _waiting(order)
        yield from _real(media, plan, folder, times)
    yield from simulated_rows(times)


def recorded(order: JobOrder) -> Recorded:
    """Seconds and bytes of each frame of a job of one worker, in CPU seconds.

    `host_s` is of each span, and `start_s` of a worker.
    """
    media, plan, folder = order.media, order.plan, order.folder
    job = run_once(media, with_workers(plan, 1), folder, hand_out=partial(hand_out, worker=Timed))
    lines = (folder / "span_seconds").read_text(encoding="ascii").splitlines()
    spans = [float(line) for line in lines][1:]
    frames = media.video.frame_count
    return {
        "span_s": fmean(spans) / plan.segment_frames,
        "survey_s": _survey_s(media, plan, folder) / frames,
        "source_bytes": media.path.stat().st_size / frames,
        "result_bytes": job.segment_bytes / frames,
        "join_s": sum(job.steps[step].cpu_s for step in ("mux", "verify")) / frames,
        "host_s": served(order, 1, _IDLE_SPANS).cpu_s / _IDLE_SPANS,
        "start_s": job.workers_cpu_s - sum(spans) - median(spans),
    }


def _survey_s(media: MediaInfo, plan: Plan, folder: Path) -> float:
    context = JobContext(
        job_id="bench", media=media, plan=plan, control=Control(), events=NoEvents()
    )
    begin = time.process_time()
    with FrameReader(media) as reader:
        for _ in Survey(context, SegmentList(folder), reader).spans():
            pass
    return time.process_time() - begin


def _waiting(order: JobOrder) -> Iterator[Row]:
    """Workers that wait instead of computing, through Dask, and the same simulated."""
    for count in _WAITING:
        spans = _WAITING_SPANS * count
        found = served(order, count, spans, _WAIT_S).wall_s
        times = SpanTimes(spans=spans, span_s=(_WAIT_S,))
        yield {
            "waiting_workers": count,
            **_compared(found, simulate(times, count * (1.0,)).seconds),
        }


def _real(media: MediaInfo, plan: Plan, folder: Path, times: Recorded) -> Iterator[Row]:
    """The recorded job with as many workers as there are cores at most, and the same simulated.

    By the clock, so only on an idle computer; the start is that of one worker.
    """
    of_job = replace(of_film(times, _RECORDED_SEGMENTS * [plan.segment_frames]), join_s=0.0)
    start = 0.0
    for count in (one for one in (1, 2, 4) if one <= devices.cpu_threads()):
        found = run_once(media, with_workers(plan, count), folder).steps["run"].wall_s
        start = start or max(0.0, found - simulate(replace(of_job, start_s=0.0), (1.0,)).seconds)
        seconds = simulate(replace(of_job, start_s=start), count * (1.0,)).seconds
        yield {"real_workers": count, **_compared(found, seconds)}


def _compared(measured: float, simulated: float) -> Row:
    return {"measured_s": measured, "simulated_s": simulated, "ratio": simulated / measured}


def film_of(times: Recorded, workers: int, faster: float = 1.0) -> SpanTimes:
    """A video of two hours, cut into spans as the planner does for some workers.

    Args:
        times: Result of `recorded`.
        workers: Number of workers that share it.
        faster: Speed of each of them next to the recorded one.
    """
    segments = _FILM_FRAMES // _SEGMENT_FRAMES
    longest = span_segments(segments, workers, takes_shots=False)
    spans = SpanLengths(segments=segments, workers=workers, longest=longest)
    return of_film(times, [length * _SEGMENT_FRAMES for length in spans], faster)


def of_film(times: Recorded, frames: Sequence[int], faster: float = 1.0) -> SpanTimes:
    """A video of spans of some frames; the host works for each as for an average one."""
    each = fmean(frames)
    return SpanTimes(
        spans=len(frames),
        span_s=tuple(times["span_s"] * own / faster for own in frames),
        survey_s=times["survey_s"] * each,
        host_s=times["host_s"],
        source_bytes=times["source_bytes"] * each,
        result_bytes=times["result_bytes"] * each,
        join_s=times["join_s"] * sum(frames),
        start_s=times["start_s"],
    )


def simulated_rows(times: Recorded) -> Iterator[Row]:
    """A row for each link, speed and number of workers."""
    for name, link in LINKS.items():
        for faster in FASTER:
            one = simulate(film_of(times, 1, faster), (1.0,), link)
            for count in COUNTS:
                found = simulate(film_of(times, count, faster), count * (1.0,), link)
                yield {
                    "link": name,
                    "faster": faster,
                    "workers": count,
                    "seconds": found.seconds,
                    "efficiency": found.efficiency(one),
                    "limit": found.limit,
                    "busy": found.busy[found.limit],
                }
