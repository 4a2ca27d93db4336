"""Shares of workers in the video of a plan, by their predicted speed."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from engine.planner import workers
from engine.protocol.plan import Plan

_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)  # segments of a span that are tried
# A prediction may say too much or too little of a GPU next to the others: the length of spans is
# the best one on average over such errors.
_ERRORS = (1.0, 1.3, 1 / 1.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of workers in a video."""

    seconds: float  # until the last span is made
    frames: tuple[int, ...]  # frames of each worker
    spans: tuple[int, ...]  # number of each worker


def shared_out(plan: Plan, rates: Sequence[float]) -> Shares:
    """Hand the spans of a plan out.

    Args:
        plan: Plan with the length of its spans.
        rates: Frames/s of each worker; of those that are free at the same time the first one is
            next.
    """
    frames, spans = [0] * len(rates), [0] * len(rates)
    seconds = 0.0
    for own, (worker, end) in zip(
        frames_of_spans(plan), in_turn(computed_frames(plan), rates), strict=True
    ):
        frames[worker] += own
        spans[worker] += 1
        seconds = max(seconds, end)
    return Shares(seconds=seconds, frames=tuple(frames), spans=tuple(spans))


def in_turn(
    spans: Iterable[float], rates: Sequence[float], each_s: Sequence[float] = ()
) -> Iterator[tuple[int, float]]:
    """Give each span to the worker that is free first.

    Args:
        spans: Frames to compute for each.
        rates: Frames/s of each worker.
        each_s: Seconds of each worker for a span beside computing; () for none.

    Yields:
        Worker of each span, and the second in which it ends.
    """
    more = each_s or len(rates) * (0.0,)
    free = [(0.0, worker) for worker in range(len(rates))]
    for frames in spans:
        at, worker = free[0]
        end = at + frames / rates[worker] + more[worker]
        heapq.heapreplace(free, (end, worker))
        yield worker, end


def frames_of_spans(plan: Plan) -> Iterator[int]:
    """Frames of each span of a plan."""
    left = plan.frames
    for segments in workers.SpanLengths.of(plan):
        yield min(segments * plan.segment_frames, left)
        left -= segments * plan.segment_frames


def computed_frames(plan: Plan) -> Iterator[float]:
    """Frames that a worker computes for each span, with those around it."""
    lengths, begin = tuple(workers.SpanLengths.of(plan)), 0
    around = {length: workers.frames_around(plan, length) for length in set(lengths)}
    for length in lengths:
        own = min(length * plan.segment_frames, plan.frames - begin)
        edges = (begin > 0) + (begin + own < plan.frames)
        yield own + edges * around[length] / 2
        begin += own


def with_best_spans(plan: Plan, rates: Sequence[float]) -> Plan:
    """The plan with the length of spans that makes the video soonest; its pictures are the same.

    Long spans waste little at their edges, with short ones the GPUs end together.
    """

    def seconds(length: int) -> float:
        tried = replace(plan, span_segments=length)
        return sum(shared_out(tried, (rates[0] * error, *rates[1:])).seconds for error in _ERRORS)

    return replace(plan, span_segments=min(_LENGTHS, key=seconds))
