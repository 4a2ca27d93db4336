"""Reasons of a plan: what was chosen, what limits it, one step more and one step less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.core.units import memory_text
from engine.models import registry
from engine.models.contracts import Step
from engine.protocol.plan import Alternative, Limit, Plan, Reasons, WorkPlan
from engine.settings.schema import JobSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What the whole job takes with one plan of its model: bytes and seconds."""

    device_bytes: int
    ram_bytes: int
    seconds: float


Priced = Callable[[WorkPlan], Price]


def reasons_of(plan: Plan, settings: JobSettings, priced: Priced) -> Reasons:
    """The reasons for a plan.

    Args:
        plan: With its predictions.
        settings: What the user wants.
        priced: What the job would take with another plan of the same model.
    """
    family = registry.family_of(plan.work)
    fits = all(notice.code != "plan-does-not-fit" for notice in plan.notices)
    # the smallest plan, which does not fit, has nothing to be compared with
    steps = sorted(family.steps(plan.work), key=lambda step: not step.is_more) if fits else []
    found = [_alternative(plan, step, priced(step.work)) for step in steps]
    more = [one for one, step in zip(found, steps, strict=True) if step.is_more]
    limited_by = _limit(plan, settings, more)
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
        choices=tuple(family.choices(plan.work)),
        alternatives=tuple(found),
    )


# --- what limits

_SIZES = ("clip_frames", "encode_tile", "decode_tile", "tile")  # 0 as large as fits


def _limit(plan: Plan, settings: JobSettings, more: list[Alternative]) -> Limit:
    on_gpu = plan.work.device == "cuda"
    more = [*more, _itself(plan)]
    if on_gpu and any(one.device_bytes > plan.device_budget_bytes for one in more):
        return "video-memory"
    if any(one.ram_bytes > plan.budget_bytes for one in more):
        return "memory"
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


def _alternative(plan: Plan, step: Step, price: Price) -> Alternative:
    on_gpu = step.work.device == "cuda"
    fits_gpu = price.device_bytes <= plan.device_budget_bytes or not on_gpu
    return Alternative(
        code=step.code,
        message=step.message,
        device_bytes=price.device_bytes,
        ram_bytes=price.ram_bytes,
        seconds=price.seconds,
        fits=fits_gpu and price.ram_bytes <= plan.budget_bytes,
        params=step.params,
    )
