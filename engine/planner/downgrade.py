"""From a plan that did not work to the next smaller one, in numbers and in words; no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from engine.core.errors import OutOfMemory
from engine.core.messages import Message
from engine.core.units import memory_text
from engine.hardware.budget import PROGRAM_BYTES
from engine.models import registry
from engine.models.planning.notices import tiles_change
from engine.planner import peaks
from engine.protocol.gpu_reading import GpuProcess
from engine.protocol.plan import Notice, Plan, StagePlan, WorkPlan

Why = Literal["out-of-memory", "spilled", "overflow"]
_MIB = 2**20


def next_plan(plan: Plan, why: Why, *, of_main_memory: bool = False) -> Plan | None:
    """The plan to go on with; None where there is none.

    Args:
        plan: That did not work.
        why: What was wrong with it.
        of_main_memory: Main memory was short, not that of a card.
    """
    work, family = plan.work, registry.family_of(plan.work)
    other: WorkPlan | None = None
    if why == "overflow":
        other = family.wider(work)
    else:
        if of_main_memory and work.device != "cpu":  # a processor has but one memory
            other = family.less_on_host(work)
        other = other or family.smaller(work)
    return None if other is None else with_work(plan, other)


def with_work(plan: Plan, work: WorkPlan) -> Plan:
    """A plan with another plan of its model, and the memory that this takes."""
    plan = replace(plan, work=work)
    memory = peaks.stage_peaks(plan)
    stages = tuple(_remeasured(stage, memory.get(stage.stage)) for stage in plan.stages)
    return replace(
        plan,
        stages=stages,
        peak_bytes=peaks.ram_bytes(plan),
        device_bytes=peaks.device_bytes(plan),
        reasons=None,  # they were those of the plan before
    )


def _remeasured(stage: StagePlan, peak: peaks.Peak | None) -> StagePlan:
    if peak is None:
        return stage
    return replace(stage, peak_bytes=PROGRAM_BYTES + peak.ram, device_bytes=peak.device)


def notice_of(
    before: Plan,
    after: Plan,
    why: Why,
    *,
    spilled_bytes: int = 0,
    holders: Sequence[GpuProcess] = (),
) -> Notice:
    """What became smaller, why, and which program holds the card's memory where that is known."""
    change = change_of(before, after)
    narrow = before.work.dtype if before.latent is None else before.latent.dtype
    messages = {
        "out-of-memory": f"Memory ran out: the job goes on with {change}.",
        "spilled": f"Windows moved {memory_text(spilled_bytes)} of the card's memory to main "
        f"memory, which is slow: the job goes on with {change}.",
        "overflow": f"Numbers grew too large for {narrow}: the job goes on with {change}.",
    }
    return Notice(
        code="plan-changed",
        severity="warning",
        message=messages[why],
        hint=holder_words(holders) if why != "overflow" else "",
        params={"why": why, "change": change},
    )


def change_of(before: Plan, after: Plan) -> str | Message:
    """What is different, the most telling thing alone: "clips of 9 instead of 21 frames"."""
    return next(_changes(before, after), "smaller pieces")


def no_smaller(plan: Plan, free_bytes: int, holders: Sequence[GpuProcess] = ()) -> OutOfMemory:
    """The error at the floor: what the smallest plan needs, what was free, what could help.

    Args:
        plan: The smallest one.
        free_bytes: Of the card, or of main memory where the processor computes.
        holders: Programs that hold memory of the card.
    """
    on_card = plan.work.device == "cuda"
    needed = plan.device_bytes if on_card else plan.peak_bytes
    kind = "memory of the card" if on_card else "main memory"
    hint = "Close other programs, then resume the job: finished parts are kept."
    who = holder_words(holders) if on_card else ""
    return OutOfMemory(
        f"There is not enough memory even for the smallest plan: it takes about "
        f"{memory_text(needed)} of {kind}, and {memory_text(free_bytes)} are free.",
        hint=f"{who} {hint}" if who else hint,
        needed=needed,
        free=free_bytes,
        device=plan.work.device,
        holders=", ".join(holder.name for holder in holders),
    )


def holder_words(holders: Sequence[GpuProcess]) -> str:
    """Who holds most of the card's memory, in a sentence; "" where nobody is known."""
    if not holders:
        return ""
    first = holders[0]
    if first.mb is None:
        return f"{first.name} uses the card too."
    return f"{first.name} holds {memory_text(first.mb * _MIB)} of the card's memory."


def _changes(before: Plan, after: Plan) -> Iterator[str | Message]:
    old, new = before.work, after.work
    if old.dtype != new.dtype:
        yield f"numbers of {new.dtype} instead of {old.dtype}"
    if old.family == new.family:
        yield from registry.family_of(new).changes(old, new)
    if before.latent is not None and after.latent is not None:
        if before.latent.dtype != after.latent.dtype:
            yield f"numbers of {after.latent.dtype} instead of {before.latent.dtype}"
        yield from tiles_change("decoding", before.latent.decode_tile, after.latent.decode_tile)
