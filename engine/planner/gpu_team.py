"""Several GPUs of this machine that make one film: which of them take part, and what that says.

Whatever changes the picture is decided once for a film: all work by the plan that fits the one with
the least memory, in a dtype and with kernels that the oldest has. A GPU is left out where the film
would take longer with it, or hardly less for other clips or tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from engine.core.units import minutes_message
from engine.hardware.budget import Budget
from engine.models.planning.notices import chosen
from engine.planner import sharing, times
from engine.planner.rates import Rates
from engine.protocol.plan import Notice, Plan, WorkerPlan

Planned = Callable[[Budget], Plan]
_WORTH = 1.1  # times as fast, at least, is a film that gets other clips or tiles for it


def soonest(planned: Planned, budget: Budget) -> Plan:
    """The plan of those GPUs that make a film soonest, of all that may take part.

    All are tried, then without the one with the least memory and so on to a single one, and last
    the fastest by itself. A notice names those that are left out.

    Args:
        planned: Function that plans for some of them.
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
    return replace(
        team[0],
        vram_bytes=min(one.vram_bytes for one in team),
        capability=min((one.capability for one in team), key=lambda one: one or (0, 0)),
        gpus=tuple(team),
    )


def budget_of(plan: Plan, budget: Budget) -> Budget:
    """Budget of the GPUs that make a plan, where others are left out."""
    own = {worker.gpu for worker in plan.workers if worker.gpu} or {plan.gpu}
    team = [one for one in budget.gpus if one.gpu_value in own]
    return _joint(team) if team else budget


def workers_of(budget: Budget) -> tuple[WorkerPlan, ...]:
    """A process for each GPU of a team."""
    return tuple(WorkerPlan(gpu=one.gpu_value, card=_name(one)) for one in budget.gpus)


def shared(plan: Plan, budget: Budget, known: Rates) -> Plan:
    """The plan with the length of spans, and what each GPU makes of the film."""
    rates = times.frame_rates(plan, budget, known)
    plan = sharing.with_best_spans(plan, rates)
    frames = sharing.shared_out(plan, rates).frames
    made = zip(plan.workers, frames, strict=True)
    return replace(
        plan, workers=tuple(replace(one, share=count / plan.frames) for one, count in made)
    )


def choices(plan: Plan) -> Iterator[Notice]:
    """Who makes how much of the film, and for whom its sizes are chosen."""
    frames = plan.span_segments * plan.segment_frames
    shares = tuple(f"{one.card} ({one.share:.0%})".replace("%", " %") for one in plan.workers)
    yield chosen("gpus", gpus=", ".join(shares), frames=frames)


def _name(one: Budget) -> str:
    return one.title or one.gpu_value
