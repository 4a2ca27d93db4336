"""How several GPUs share a film: a simulation of what is handed out when, from predicted times.

Each span goes to the GPU that is free first, as `engine.workers` hands them out.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.planner import workers
from engine.protocol.plan import Plan

_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)  # segments of a span that are tried
# A prediction may say too much or too little of a GPU next to the others: the length of spans is
# the best one on average over such errors.
_ERRORS = (1.0, 1.3, 1 / 1.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How a film is shared.

    Attributes:
        seconds: Until the last span is made.
        frames: That each GPU makes, in their order.
        spans: How many each makes.
    """

    seconds: float
    frames: tuple[int, ...]
    spans: tuple[int, ...]


def shared_out(plan: Plan, rates: Sequence[float]) -> Shares:
    """Hand the spans of a plan out.

    Args:
        plan: With the length of its spans.
        rates: Frames/s of each GPU; of those that are free at the same time the first one is next.
    """
    length, around = plan.span_segments * plan.segment_frames, workers.frames_around(plan) / 2
    free = [(0.0, number) for number in range(len(rates))]
    frames, spans, end = [0] * len(rates), [0] * len(rates), 0.0
    for begin in range(0, plan.frames, length):
        at, number = heapq.heappop(free)
        own = min(length, plan.frames - begin)
        edges = (begin > 0) + (begin + own < plan.frames)
        at += (own + edges * around) / rates[number]
        heapq.heappush(free, (at, number))
        frames[number], spans[number], end = frames[number] + own, spans[number] + 1, max(end, at)
    return Shares(seconds=end, frames=tuple(frames), spans=tuple(spans))


def with_best_spans(plan: Plan, rates: Sequence[float]) -> Plan:
    """The plan with the length of spans that makes the film soonest; its pictures are the same.

    Long spans waste little at their edges, with short ones the GPUs end together.
    """

    def seconds(length: int) -> float:
        tried = replace(plan, span_segments=length)
        return sum(shared_out(tried, (rates[0] * error, *rates[1:])).seconds for error in _ERRORS)

    return replace(plan, span_segments=min(_LENGTHS, key=seconds))
