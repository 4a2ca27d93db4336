"""From a plan that did not work to the next smaller one, and the notice of it; no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from engine.core.errors import OutOfMemory
from engine.core.messages import Message, Param, message
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
        of_main_memory: Main memory was short, not that of a GPU.
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


def _remeasured(stage: StagePlan, peak: peaks.StagePeak | None) -> StagePlan:
    if peak is None:
        return stage
    return replace(stage, peak_bytes=PROGRAM_BYTES + peak.ram, device_bytes=peak.device)


def notice_of(
    before: Plan,
    after: Plan,
    why: Why,
    *,
    spilled_bytes: int = 0,
    users: Sequence[GpuProcess] = (),
) -> Notice:
    """What became smaller, why, and which program holds the GPU's memory where that is known."""
    return Notice(
        code="plan-changed",
        case=why,
        severity="warning",
        params={
            "why": why,
            "change": change_of(before, after),
            "size": memory_text(spilled_bytes),
            "dtype": before.work.dtype if before.latent is None else before.latent.dtype,
            "gpu_user": _largest_user(users),
        },
    )


def change_of(before: Plan, after: Plan) -> Message:
    """What is different, the main thing alone: "clips of 9 instead of 21 frames"."""
    return next(_changes(before, after), message("change.smaller-pieces"))


def no_smaller(plan: Plan, free_bytes: int, users: Sequence[GpuProcess] = ()) -> OutOfMemory:
    """The error where even the smallest plan ran out of memory.

    Args:
        plan: The smallest one.
        free_bytes: Of the GPU, or of main memory where the processor computes.
        users: Processes that hold memory of the GPU.
    """
    needed, on_gpu = plan.peak_bytes, plan.work.device == "cuda"
    if not on_gpu:
        size, space = memory_text(needed), memory_text(free_bytes)
        return OutOfMemory(
            "smallest-plan", size=size, space=space, needed=needed, free=free_bytes, device="cpu"
        )
    return OutOfMemory(
        "smallest-plan-on-gpu",
        size=memory_text(plan.device_bytes),
        space=memory_text(free_bytes),
        gpu_user=_largest_user(users),
        needed=plan.device_bytes,
        free=free_bytes,
        device="cuda",
        holders=", ".join(user.name for user in users),
    )


def _largest_user(users: Sequence[GpuProcess]) -> Param:
    """The process that holds most of the GPU's memory, in a sentence; "" where none is known."""
    if not users:
        return ""
    first = users[0]
    if first.mb is None:
        return message("reason.gpu-used", name=first.name)
    return message("reason.gpu-held", name=first.name, size=memory_text(first.mb * _MIB))


def _changes(before: Plan, after: Plan) -> Iterator[Message]:
    old, new = before.work, after.work
    if old.dtype != new.dtype:
        yield message("change.dtype", before=old.dtype, after=new.dtype)
    if old.family == new.family:
        yield from registry.family_of(new).changes(old, new)
    if before.latent is not None and after.latent is not None:
        was, is_ = before.latent, after.latent
        if was.dtype != is_.dtype:
            yield message("change.dtype", before=was.dtype, after=is_.dtype)
        yield from tiles_change("decoding", was.decode_tile, is_.decode_tile)
