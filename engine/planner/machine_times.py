"""Speed of those that share a film: processes of this computer, and other computers."""

from __future__ import annotations

from dataclasses import replace

from engine.hardware.budget import Budget
from engine.planner import times
from engine.planner.rates import Rates
from engine.protocol.plan import Plan

_NOMINAL = Budget(ram_bytes=0, threads=8, capability=(8, 9))  # of a computer that is not known


def own_rates(plan: Plan, budget: Budget, known: Rates) -> tuple[float, ...]:
    """Frames/s of each process of this computer that makes parts of a film; corrected."""
    if budget.gpus:
        return times.frame_rates(plan, budget, known)
    factor = known.factor(times.kind(plan), times.gpu_title(plan.work, budget))
    _, shared, alone = times.work_parts(plan, budget, known)
    count = len(plan.workers)
    return (plan.frames / factor / max(count * shared, alone),) * count


def machine_rate(plan: Plan, fingerprint: str, known: Rates) -> float | None:
    """Frames/s of another computer, as jobs like this one taught; None where none did."""
    found = known.learned(times.kind(plan), machine_title(fingerprint))
    return None if found is None else plan.frames / found.factor / nominal_seconds(plan)


def machine_title(fingerprint: str) -> str:
    """What the speed of another computer is kept under."""
    return f"machine:{fingerprint}"


def nominal_seconds(plan: Plan) -> float:
    """Seconds of the shared work by a computer of which nothing is known.

    The speed of other computers is kept in relation to it, so that it does not depend on this one.
    """
    return max(times.work_parts(replace(plan, workers=()), _NOMINAL, Rates())[1:])


def around_seconds(plan: Plan, budget: Budget, known: Rates) -> tuple[float, float]:
    """Seconds before and after the work that processes share."""
    factor = 1.0
    if not budget.gpus:
        factor = known.factor(times.kind(plan), times.gpu_title(plan.work, budget))
    found = times.stages_alone(plan, budget, known)
    before, after = (factor * found.get(stage, 0.0) for stage in (times.FIRST, times.LAST))
    return times.fixed_seconds(plan, known) + before, after
