"""Workers that make nothing: what handing out costs by itself, and how many spans one host serves.

Everything else is real: Dask, its messages through TLS, records and events.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import queue
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from distributed import Worker
from distributed.security import Security

from engine.bench.timing.one_job import SegmentList
from engine.core.control import Control
from engine.core.serialization import to_plain
from engine.pipeline.context import JobContext
from engine.pipeline.segments import SegmentRecord, Span, made_path
from engine.protocol.events import Event, PreviewReady
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan, WorkerPlan
from engine.video.read.frame_mark import FrameMark
from engine.workers.hand_out import hand_out
from engine.workers.pool import SpanFuture, WorkerPool
from engine.workers.reports import Report
from engine.workers.worker import JobOrder, Made, SpanWorker

_AHEAD, _HANDED_OUT = 16, 3  # spans of each worker, as in `hand_out`
_START_S = 120.0


class Idle(SpanWorker):
    """Waits instead of making a span, and tells that its one segment is there."""

    def __init__(self, order: JobOrder, seconds: float = 0.0) -> None:
        super().__init__(order)
        self._seconds = seconds

    def make(self, span: Span) -> PreviewReady | None:
        """Take as long as was said."""
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
    """Hand a film out to one process, with all that a job does around it; with its start.

    Args:
        media: The film.
        plan: Of the job; its spans are of one segment.
        folder: Of the job.
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
    """Hand spans out to many workers, which another process has; they are there before.

    Args:
        order: Of a job, for its folder.
        workers: How many.
        spans: How many.
        seconds: That a worker takes for a span.
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
    """Hand out spans as `hand_out` does, until all are made; which workers made them."""
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
