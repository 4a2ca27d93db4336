"""Several GPUs of this computer that make one video: choice of the team, its plan and notices.

Everything that changes the frames is decided once for a video: all GPUs of a team work by one plan.
It fits the GPU with the least memory, with a dtype and kernels that the oldest one supports. A GPU
is left out if the video would take longer with it, or if it would save little time but change clips
or tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from engine.core.units import minutes_message
from engine.hardware.budget import Budget
from engine.models.planning.candidates import chosen
from engine.planner import sharing, times
from engine.planner.rates import Rates
from engine.protocol.plan import Notice, Plan, WorkerPlan

Planned = Callable[[Budget], Plan]
_WORTH = 1.1  # least speed-up for which a team may change clips or tiles


def soonest(planned: Planned, budget: Budget) -> Plan:
    """The plan of the fastest team of GPUs.

    The whole team is tried, then teams without the GPU with the least memory, and so on to a single
    one; last the fastest GPU alone. A notice names GPUs that are left out.

    Args:
        planned: Function that plans for the budget of a team.
        budget: Budget with at least two GPUs.
    """
    all_together, *others = (_joint(team) for team in _teams(budget.gpus))
    first = planned(all_together)
    is_short = first.frames <= first.segment_frames
    if first.work.device != "cuda" or first.only_converts or is_short:
        return planned(budget.gpus[0])  # there is nothing to share
    tried = [(all_together, first), *((some, planned(some)) for some in others)]
    alone = next(plan.work for some, plan in tried if some == budget.gpus[0])  # the fastest one

    def cost(one: tuple[Budget, Plan]) -> tuple[int, float]:
        plan = one[1]
        is_same = plan.work.summary == alone.summary
        return _refusals(plan), plan.seconds * (1 if is_same else _WORTH)

    team, best = min(tried, key=cost)
    out = [one for one in budget.gpus if one not in (team.gpus or (team,))]
    if not out:
        return best
    notice = Notice(
        code="gpus-left-out",
        case="slower" if _refusals(first) <= _refusals(best) else "refused",
        severity="info",
        params={
            "gpus": ", ".join(map(_name, out)),
            "with": minutes_message(first.seconds),
            "without": minutes_message(best.seconds),
        },
    )
    return replace(best, notices=(*best.notices, notice))


def _refusals(plan: Plan) -> int:
    return sum(notice.severity == "refusal" for notice in plan.notices)


def _teams(gpus: Sequence[Budget]) -> Iterator[tuple[Budget, ...]]:
    """Teams that are tried, each with the fastest GPU first."""
    rest = sorted(gpus, key=lambda one: one.vram_bytes, reverse=True)
    for count in range(len(rest), 0, -1):
        yield tuple(one for one in gpus if one in rest[:count])
    if rest[0] != gpus[0]:
        yield (gpus[0],)


def _joint(team: Sequence[Budget]) -> Budget:
    """Budget that each GPU of a team allows; all else is about the fastest one."""
    if len(team) == 1:
        return team[0]
    least = min(team, key=lambda one: one.vram_bytes)
    return replace(
        team[0],
        vram_bytes=least.vram_bytes,
        is_vram_limited=least.is_vram_limited,
        capability=min((one.capability for one in team), key=lambda one: one or (0, 0)),
        gpu_losses=max(one.gpu_losses for one in team),
        gpus=tuple(team),
    )


def budget_of(plan: Plan, budget: Budget) -> Budget:
    """Budget of the GPUs of a plan, without those that are left out."""
    own = {worker.gpu for worker in plan.workers if worker.gpu} or {plan.gpu}
    team = [one for one in budget.gpus if one.gpu_value in own]
    return _joint(team) if team else budget


def workers_of(budget: Budget) -> tuple[WorkerPlan, ...]:
    """A process for each GPU of a team."""
    return tuple(WorkerPlan(gpu=one.gpu_value, card=_name(one)) for one in budget.gpus)


def shared(plan: Plan, budget: Budget, known: Rates) -> Plan:
    """The plan with the length of spans, and the share of each GPU."""
    rates = times.frame_rates(plan, budget, known)
    plan = sharing.with_best_spans(plan, rates)
    frames = sharing.shared_out(plan, rates).frames
    made = zip(plan.workers, frames, strict=True)
    return replace(
        plan, workers=tuple(replace(one, share=count / plan.frames) for one, count in made)
    )


def choices(plan: Plan) -> Iterator[Notice]:
    """Notice of the share of each GPU, and of the frames of a span."""
    frames = plan.span_segments * plan.segment_frames
    shares = tuple(f"{one.card} ({one.share:.0%})".replace("%", " %") for one in plan.workers)
    yield chosen("gpus", gpus=", ".join(shares), frames=frames)


def _name(one: Budget) -> str:
    return one.title or one.gpu_value
