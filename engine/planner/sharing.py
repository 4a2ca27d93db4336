"""How workers share the film of a plan, by their predicted speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine.planner import workers
from engine.planner.simulation import SpanTimes, simulate
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
        frames: That each worker makes, in their order.
        spans: How many each makes.
    """

    seconds: float
    frames: tuple[int, ...]
    spans: tuple[int, ...]


def shared_out(plan: Plan, rates: Sequence[float]) -> Shares:
    """Hand the spans of a plan out.

    Args:
        plan: With the length of its spans.
        rates: Frames/s of each worker; of those that are free at the same time the first one is
            next.
    """
    spans, computed = tuple(frames_of_spans(plan)), tuple(computed_frames(plan))
    found = simulate(SpanTimes(spans=len(spans), span_s=computed), rates, near=len(rates))
    return Shares(
        seconds=found.seconds,
        frames=tuple(sum(spans[one] for one in made) for made in found.made),
        spans=tuple(map(len, found.made)),
    )


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
    """The plan with the length of spans that makes the film soonest; its pictures are the same.

    Long spans waste little at their edges, with short ones the GPUs end together.
    """

    def seconds(length: int) -> float:
        tried = replace(plan, span_segments=length)
        return sum(shared_out(tried, (rates[0] * error, *rates[1:])).seconds for error in _ERRORS)

    return replace(plan, span_segments=min(_LENGTHS, key=seconds))
