"""Worker processes of a job: their number, and how much of the video each gets at a time.

The plan is made for one process; then as many such processes are added as fit, each with one CPU
thread. Their number does not change the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from engine.core.units import memory_text
from engine.hardware.budget import Budget
from engine.models import registry
from engine.models.planning.candidates import chosen
from engine.planner import peaks
from engine.protocol.plan import Notice, Plan, WorkerPlan
from engine.settings.schema import JobSettings

# Spans that each worker gets, about, so that a slow worker does not delay the end. There are fewer
# where a model looks at shots: each span then begins and ends with frames that are computed twice.
_SPANS, _SPANS_OF_SHOTS = 8, 4
_LONGEST_SPAN = 24  # segments
_LEAST_OWN = 16  # least own frames of a span for each frame that is computed twice
TOGETHER = 8  # workers assumed where other machines may join later
_SHOT_S = 4.0  # average length of a shot
_SHORTER = 4  # a span may end a fourth earlier, at a cut


def added(plan: Plan, wanted: int, budget: Budget) -> Plan:
    """A plan of one process with the wanted number of workers, or as many as fit.

    Unchanged where only one fits or a GPU computes: one process then uses all threads.
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
    """Segments of the longest spans, for a number of workers."""
    return span_segments(_segments(plan), count, takes_shots=plan.work.takes_shots)


def span_segments(segments: int, workers: int, *, takes_shots: bool) -> int:
    """Segments of the longest spans of a video, whose segments some workers share."""
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
        """Lengths for a plan; the shortest ones still compute few frames twice."""

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
        """Segments of each span of the video; the most where a cut decides."""
        first = 0
        while first < self.segments:
            length = self.at(first)[-1]
            yield min(length, self.segments - first)
            first += length

    def at(self, first: int) -> range:
        """Possible lengths of the span that begins with a segment."""
        longest = self.longest
        if self.workers > 1:
            part = (self.segments - first) // self.workers
            longest = min(longest, max(self.shortest, part))
        return _lengths(longest, takes_shots=self.takes_shots)


def _lengths(longest: int, *, takes_shots: bool) -> range:
    """Possible lengths of a span; where a model looks at shots it may end earlier, after a cut."""
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
    """Average number of extra frames computed before and after a span of some segments.

    None are computed before the shot in which the span begins, or after the one in which it ends.
    Of the possible ends of a span the one soonest after a cut is taken.
    """
    before, after = map(float, registry.family_of(plan.work).frames_around(plan.work))
    if plan.work.shot_sensitivity is not None:
        shot = _SHOT_S * float(plan.picture.frame_rate)
        before = min(before, shot / (1 + len(_lengths(segments, takes_shots=True))))
        after = min(after, shot / 2)
    return round(before + after)


def _limits(plan: Plan, budget: Budget) -> dict[str, int]:
    """Most workers by the length of the video, CPU threads and main memory; each at least 1."""
    memory = (budget.ram_beside(0) - peaks.program_bytes(plan)) // peaks.worker_bytes(plan)
    return {
        "film": _segments(plan),
        "cores": max(1, budget.threads),
        "memory": max(1, memory),
    }


def _segments(plan: Plan) -> int:
    return max(1, -(-plan.frames // plan.segment_frames))
