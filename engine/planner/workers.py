"""Worker processes of a job: how many there may be, and how much of the film each gets at a time.

A plan is made as for one process, and then it is counted how many such processes fit, each with one
thread of the processor. Their number does not change the picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engine.core.units import memory_text
from engine.hardware.budget import PROGRAM_BYTES, Budget
from engine.models.planning.notices import chosen
from engine.planner import peaks
from engine.protocol.plan import Notice, Plan, WorkerPlan
from engine.settings.schema import JobSettings

# Spans that each worker gets, about: the more, the better they end together. Where a model looks at
# shots each span begins and ends with frames that are computed twice.
_SPANS, _SPANS_OF_SHOTS = 8, 4
_LONGEST_SPAN = 24  # segments
_CLIPS_AROUND = 2  # a span of shots: one before it, one after it


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
    """Segments of a span, for a film of some that workers share: such that they end together."""
    each = _SPANS_OF_SHOTS if takes_shots else _SPANS
    longest = max(1, min(_LONGEST_SPAN, segments // (each * workers)))

    def of_the_last_worker(length: int) -> int:
        spans = -(-segments // length)
        return length * -(-spans // workers)

    return min(range(longest, longest // 2, -1), key=of_the_last_worker)


def notices(plan: Plan, settings: JobSettings, budget: Budget) -> Iterator[Notice]:
    """Of a job that is to have workers: where there are fewer, and why."""
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
    """What was decided about processes that share the processor."""
    frames = plan.span_segments * plan.segment_frames
    yield chosen("workers", count=len(plan.workers), frames=frames)


def made_twice(plan: Plan) -> float:
    """Frames around a span that a worker computes for the sake of those in it, as a share of it."""
    return frames_around(plan) / (plan.span_segments * plan.segment_frames)


def frames_around(plan: Plan) -> int:
    """Frames around a span that are computed for the sake of those in it."""
    return _CLIPS_AROUND * plan.work.clip_frames if plan.work.takes_shots else 0


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
