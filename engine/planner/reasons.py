"""Reasons of a plan: what limits it, what was chosen, what one step more or less would change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.core.units import memory_text
from engine.hardware.budget import Budget
from engine.models import registry
from engine.models.contracts import Step
from engine.planner import first_pass, gpu_team, machines, peaks, times, workers
from engine.planner.rates import Rates
from engine.protocol.plan import Alternative, Limit, Notice, Plan, Reasons
from engine.settings.schema import JobSettings

if TYPE_CHECKING:
    from engine.planner.plan_job import Request


def reasons_of(plan: Plan, request: Request, budget: Budget, rates: Rates) -> Reasons:
    """The reasons for a plan.

    Args:
        plan: With its predictions.
        request: What it was made for.
        budget: What those of its GPUs allow that make the plan.
        rates: How fast it and others are.
    """
    family = registry.family_of(plan.work)
    fits = all(notice.code != "plan-does-not-fit" for notice in plan.notices)
    # the smallest plan, which does not fit, has nothing to be compared with
    steps = sorted(family.steps(plan.work), key=lambda step: not step.is_more) if fits else []
    found = [_alternative(plan, budget, rates, step) for step in steps]
    more = [one for one, step in zip(found, steps, strict=True) if step.is_more]
    limited_by = _limit(plan, request.settings, more)
    needed = plan.device_bytes or plan.peak_bytes
    allowed = plan.device_budget_bytes or plan.budget_bytes
    of_gpu = limited_by == "video-memory"
    return Reasons(
        limited_by=limited_by,
        params={
            "needed": str(needed),
            "allowed": str(allowed),
            "size": memory_text(plan.device_bytes if of_gpu else plan.peak_bytes),
            "budget": memory_text(plan.device_budget_bytes if of_gpu else plan.budget_bytes),
        },
        choices=(
            *family.choices(plan.work),
            *(first_pass.choices(plan) if plan.first_pass else ()),
            *_workers_chosen(plan),
            *(machines.choices(plan, request, budget, rates) if plan.takes_machines else ()),
        ),
        alternatives=tuple(found),
    )


def _workers_chosen(plan: Plan) -> Iterator[Notice]:
    if len(plan.workers) > 1:
        yield from gpu_team.choices(plan) if plan.workers[0].gpu else workers.choices(plan)


# --- what limits

_SIZES = ("clip_frames", "encode_tile", "decode_tile", "tile")  # 0 as large as fits


def _limit(plan: Plan, settings: JobSettings, more: list[Alternative]) -> Limit:
    """What there is too little of; with too little of both what twice as much saves more time."""
    on_gpu = plan.work.device == "cuda"
    saved: dict[Limit, float] = {}
    for one in (*more, _itself(plan)):
        short: tuple[tuple[Limit, int, int], ...] = (
            ("video-memory", one.device_bytes if on_gpu else 0, plan.device_budget_bytes),
            ("memory", one.ram_bytes, plan.budget_bytes),
        )
        for limit, needed, allowed in short:
            if needed > allowed:
                # work that is repeated falls with the memory: twice as much saves half of it
                share = 1 if needed <= 2 * allowed else 1 / 2
                seconds = share * (plan.seconds - one.seconds)
                saved[limit] = max(saved.get(limit, seconds), seconds)
    if saved:
        return max(saved, key=lambda limit: saved[limit])
    is_set = any(getattr(settings, name) for name in _SIZES) or settings.blocks_on_device >= 0
    return "settings" if is_set else "nothing"


def _itself(plan: Plan) -> Alternative:
    return Alternative(
        code="",
        message=None,
        device_bytes=plan.device_bytes,
        ram_bytes=plan.peak_bytes,
        seconds=plan.seconds,
        fits=True,
    )


# --- one step away


def _alternative(plan: Plan, budget: Budget, rates: Rates, step: Step) -> Alternative:
    """What the whole job takes with another plan of its model."""
    other = replace(plan, work=step.work)
    device_bytes, ram_bytes = peaks.device_bytes(other), peaks.ram_bytes(other)
    fits_gpu = device_bytes <= plan.device_budget_bytes or step.work.device != "cuda"
    return Alternative(
        code=step.code,
        message=step.message,
        device_bytes=device_bytes,
        ram_bytes=ram_bytes,
        seconds=times.seconds(other, budget, rates),
        fits=fits_gpu and ram_bytes <= plan.budget_bytes,
        params=step.params,
    )
