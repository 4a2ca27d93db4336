"""Worker processes of a job: how many there may be, and how much of the film each gets at a time.

A plan is made as for one process, and then it is counted how many such processes fit, each with one
thread of the processor. Their number does not change the picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from engine.core.units import memory_text
from engine.hardware.budget import PROGRAM_BYTES, Budget
from engine.models import registry
from engine.models.planning.candidates import chosen
from engine.planner import peaks
from engine.protocol.plan import Notice, Plan, WorkerPlan
from engine.settings.schema import JobSettings

# Spans that each worker gets at least, about: not all are as fast as was thought. Where a model
# looks at shots each span begins and ends with frames that are computed twice.
_SPANS, _SPANS_OF_SHOTS = 8, 4
_LONGEST_SPAN = 24  # segments
_LEAST_OWN = 16  # times as many frames of its own has a span as are computed twice, if it may
TOGETHER = 8  # workers that spans are made for where others may come; who will is not known
_SHOT_S = 4.0  # of a film, on average
_SHORTER = 4  # a span of shots may be a fourth shorter


def added(plan: Plan, wanted: int, budget: Budget) -> Plan:
    """The plan of one process with as many workers as are wanted and fit.

    Where only one does, or a GPU computes, there is none: one process uses all threads.
    """
    count = min(wanted, *_limits(plan, budget).values())
    if count < 2 or plan.work.device != "cpu":
        return plan
    return replace(
        plan,
        work=replace(plan.work, threads=1),
        workers=(WorkerPlan(),) * count,
        span_segments=span_length(plan, count),
    )


def span_length(plan: Plan, count: int) -> int:
    """Segments that each of so many workers gets at a time."""
    return span_segments(_segments(plan), count, takes_shots=plan.work.takes_shots)


def span_segments(segments: int, workers: int, *, takes_shots: bool) -> int:
    """Segments of the longest spans, for a film of some that workers share."""
    each = _SPANS_OF_SHOTS if takes_shots else _SPANS
    return max(1, min(_LONGEST_SPAN, segments // (each * workers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanLengths:
    """Lengths of spans: guided self-scheduling, shorter ones at the end of the video.

    Source: Polychronopoulos and Kuck, Guided Self-Scheduling, IEEE Transactions on Computers, 1987.
    """

    segments: int  # segments of the video
    workers: int  # workers that share it; for one, all spans have the same length
    longest: int  # segments of a span
    shortest: int = 1  # segments of a span; the last one may have less
    takes_shots: bool = False  # a cut decides how long a span is

    @classmethod
    def of(cls, plan: Plan) -> SpanLengths:
        """Lengths for a plan: short spans are not so short that much is computed twice."""

        def is_worth(segments: int) -> bool:
            return segments * plan.segment_frames >= _LEAST_OWN * frames_around(plan, segments)

        own, longest = len(plan.workers), plan.span_segments
        return cls(
            segments=_segments(plan),
            workers=max(TOGETHER, own) if plan.takes_machines else own,
            longest=longest,
            shortest=next(filter(is_worth, range(1, longest)), longest),
            takes_shots=plan.work.takes_shots,
        )

    def __iter__(self) -> Iterator[int]:
        """Segments of each span of the film, at most."""
        first = 0
        while first < self.segments:
            length = self.at(first)[-1]
            yield min(length, self.segments - first)
            first += length

    def at(self, first: int) -> range:
        """Segments that the span may have that begins with this one."""
        longest = self.longest
        if self.workers > 1:
            part = (self.segments - first) // self.workers
            longest = min(longest, max(self.shortest, part))
        return _lengths(longest, takes_shots=self.takes_shots)


def _lengths(longest: int, *, takes_shots: bool) -> range:
    """A span of shots may end somewhat earlier, soon after a cut."""
    return range(longest - (longest // _SHORTER if takes_shots else 0), longest + 1)


def notices(plan: Plan, settings: JobSettings, budget: Budget) -> Iterator[Notice]:
    """Notices of a job that has fewer workers than wanted, and why."""
    if plan.work.device != "cpu":
        yield Notice(code="workers-unused", severity="info")
        return
    count, limits = max(1, len(plan.workers)), _limits(plan, budget)
    if count < settings.workers:
        case = min(limits, key=lambda name: limits[name])
        yield Notice(
            code="fewer-workers",
            case=case,
            severity="info" if case == "film" else "warning",
            params={
                "count": str(count),
                "wanted": str(settings.workers),
                "size": memory_text(peaks.worker_bytes(plan)),
            },
        )


def choices(plan: Plan) -> Iterator[Notice]:
    """The choice of processes that share the CPU."""
    frames = plan.span_segments * plan.segment_frames
    yield chosen("workers", count=len(plan.workers), frames=frames)


def made_twice(plan: Plan) -> float:
    """Fraction of frames that are computed twice because spans overlap."""
    spans = Counter(SpanLengths.of(plan))
    return sum(count * frames_around(plan, length) for length, count in spans.items()) / plan.frames


def frames_around(plan: Plan, segments: int) -> int:
    """Frames around a span of some segments, computed for the sake of those in it; on average.

    What lies before a cut or after the next one is not, however far the model looks. Of some
    places that lie anywhere in their shots, the one that is soonest after a cut is taken.
    """
    before, after = map(float, registry.family_of(plan.work).frames_around(plan.work))
    if plan.work.shot_sensitivity is not None:
        shot = _SHOT_S * float(plan.picture.frame_rate)
        before = min(before, shot / (1 + len(_lengths(segments, takes_shots=True))))
        after = min(after, shot / 2)
    return round(before + after)


def _limits(plan: Plan, budget: Budget) -> dict[str, int]:
    """Most workers by the film, the processor and main memory; at least 1."""
    memory = (budget.ram_bytes - PROGRAM_BYTES) // peaks.worker_bytes(plan)
    return {
        "film": _segments(plan),
        "cores": max(1, budget.threads),
        "memory": max(1, memory),
    }


def _segments(plan: Plan) -> int:
    return max(1, -(-plan.frames // plan.segment_frames))
