"""Other computers that may make parts of a film: whether they are let in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engine.models.planning.notices import chosen
from engine.planner import workers
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Notice, Plan, WorkerPlan

_TOGETHER = 8  # workers that spans are made short enough for; who will come is not known


def let_in(plan: Plan, media: MediaInfo) -> Plan:
    """The plan with a process of this computer at least, which others can join.

    What it decides of the picture stays; that it takes time until others are there is not known.
    """
    if _unused(media):
        return plan
    return replace(
        plan,
        takes_machines=True,
        workers=plan.workers or (WorkerPlan(gpu=plan.gpu, card=plan.card),),
        span_segments=workers.span_length(plan, max(_TOGETHER, len(plan.workers))),
    )


def notices(media: MediaInfo) -> Iterator[Notice]:
    """Why other computers, which are wanted, cannot help."""
    if case := _unused(media):
        yield Notice(code="machines-unused", case=case, severity="info")


def choices(plan: Plan) -> Iterator[Notice]:
    """What was decided of a job that lets others in."""
    yield chosen("machines", frames=plan.span_segments * plan.segment_frames)


def _unused(media: MediaInfo) -> str:
    """Why no other computer can read the source; "" where it can."""
    if media.container != "image2":
        return ""
    return "picture" if media.kind == "image" else "pictures"
