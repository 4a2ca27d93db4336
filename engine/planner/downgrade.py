"""The next smaller plan after one that did not work, and the notice of it; no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from engine.core.errors import OutOfMemory
from engine.core.messages import Message, Param, message
from engine.core.units import memory_text
from engine.models import registry
from engine.models.planning.memory import PhaseMemory, Room
from engine.planner import peaks, rates, times
from engine.planner.plan_job import room_of
from engine.protocol.gpu_reading import GpuProcess
from engine.protocol.plan import Notice, PassName, Plan, StagePlan, WorkPlan
from engine.settings.switches import careful, unpinned

Why = Literal["out-of-memory", "pinning", "spilled", "overflow", "gpu-lost"]
_MIB = 2**20
_UNKNOWN_LIMIT = 2**60  # bytes, where a plan does not state its budget


def next_plan(
    plan: Plan,
    why: Why,
    *,
    of_main_memory: bool = False,
    failed: PassName | None = None,
    part: str = "",
) -> Plan | None:
    """The plan to go on with; None where there is none.

    Of two passes the one that failed changes; if that is unknown, the one that needs more memory;
    if it cannot, the other one. Which of them overflowed is not known: the first one, which costs
    less, is widened first. Where decoding of latents failed, nothing else changes.

    Where the driver could not pin main memory ("pinning"), the plan stays, without pinned memory:
    slower copies, the same tiles and clips. One that pins nothing becomes smaller.

    Args:
        plan: Plan that did not work.
        why: Error of it.
        of_main_memory: Main memory was short, not that of a GPU.
        failed: The pass that was at work; None where that is not known.
        part: Part of the model that overflowed, a case of `NumericOverflow`.
    """
    if why == "gpu-lost":
        return _after_loss(plan)
    if why == "pinning" and pins(plan):
        return without_pinning(plan)
    for name in _in_turn(plan, why, failed):
        work, room = registry.pass_of(plan, name), partial(_room, plan, name)
        other = next_work(work, why, room, of_main_memory=of_main_memory, part=part)
        if other is not None:
            return _remeasured_plan(registry.with_pass(plan, name, other))
    return None


def _after_loss(plan: Plan) -> Plan | None:
    """The plan with careful switches; of one that has them, with half the tiles."""
    names: tuple[PassName, ...] = ("work",) if plan.first_pass is None else ("first_pass", "work")
    works = [registry.pass_of(plan, name) for name in names]
    others = [replace(work, switches=careful(work.switches)) for work in works]
    if others == works:
        others = [registry.family_of(work).gentler(work, work) for work in works]
    for name, work in zip(names, others, strict=True):
        plan = registry.with_pass(plan, name, work)
    return None if others == works else _remeasured_plan(plan)


def pins(plan: Plan) -> bool:
    """Whether a job pins main memory for a GPU."""
    devices = [one.device for one in (*plan.passes, plan.latent) if one is not None]
    return "cuda" in devices and plan.work.pins


def without_pinning(plan: Plan) -> Plan:
    """Plan with all as it is, but for copies between RAM and GPU: from memory not pinned."""
    first = plan.first_pass
    return replace(
        plan,
        work=_unpinned(plan.work),
        first_pass=None if first is None else _unpinned(first),
    )


def _unpinned(work: WorkPlan) -> WorkPlan:
    return replace(work, switches=unpinned(work.switches))


def _in_turn(plan: Plan, why: Why, failed: PassName | None) -> tuple[PassName, ...]:
    """Which of the passes are to change, the best one first."""
    if failed == "latent":
        return ("latent",)
    if plan.first_pass is None:
        return ("work",)
    passes: tuple[PassName, PassName] = ("first_pass", "work")
    if failed is not None:
        return passes if failed == "first_pass" else passes[::-1]
    needed = {name: one.device or one.host for name, one in peaks.stage_peaks(plan).items()}
    of_work = registry.family_of(plan.work).needs(plan.work).stages
    is_largest = needed["clean"] >= max(needed[name] for name in of_work)
    return passes if why == "overflow" or is_largest else passes[::-1]


def _room(plan: Plan, name: PassName) -> Room:
    """Memory that a pass of a running job may take."""
    budget = times.budget_of(plan)
    budget = replace(
        budget,
        ram_bytes=budget.ram_bytes or _UNKNOWN_LIMIT,
        vram_bytes=budget.vram_bytes or _UNKNOWN_LIMIT,
    )
    return room_of(plan, name, budget, rates.load_rates())


def next_work(
    work: WorkPlan,
    why: Why,
    room: Callable[[], Room],
    *,
    of_main_memory: bool = False,
    part: str = "",
) -> WorkPlan | None:
    """The plan of one pass to go on with; None where there is none.

    Args:
        work: The plan that did not work.
        why: Error of it.
        room: Returns the memory that it may take; called after an overflow.
        of_main_memory: Main memory was short, not that of a GPU.
        part: Part of the model that overflowed, a case of `NumericOverflow`.
    """
    family = registry.family_of(work)
    found: WorkPlan | None = None
    if why == "overflow":
        return _wider_work(work, room(), part)
    if why == "pinning" and work.device == "cuda" and work.pins:
        return _unpinned(work)
    if of_main_memory and work.device != "cpu":  # a CPU has but one memory
        found = family.less_on_host(work)
    return found or family.smaller(work)


def _wider_work(work: WorkPlan, room: Room, part: str) -> WorkPlan | None:
    """The plan of one pass whose values overflowed, with wider ones; None where there is none.

    Wider values may take more memory: tiles, clips and blocks are chosen again where they do not
    fit, so that lack of memory is not found step by step.
    """
    family = registry.family_of(work)
    wide: WorkPlan | None = family.wider(work, room.budget, part)
    if wide is None or room.holds(wide):
        return wide
    fitted: WorkPlan = family.fitted(wide, room)
    return fitted


def _remeasured_plan(plan: Plan) -> Plan:
    """A plan of which a pass has changed, with the memory that it takes now."""
    memory, peak = peaks.stage_peaks(plan), peaks.job_peak(plan)
    own = peaks.program_bytes(plan)
    stages = tuple(_remeasured(stage, memory.get(stage.stage), own) for stage in plan.stages)
    return replace(
        plan,
        stages=stages,
        peak_bytes=peak.host,
        device_bytes=peak.device,
        reasons=None,  # they were those of the plan before
    )


def _remeasured(stage: StagePlan, peak: PhaseMemory | None, program_bytes: int) -> StagePlan:
    if peak is None:
        return stage
    return replace(stage, peak_bytes=program_bytes + peak.host, device_bytes=peak.device)


def notice_of(
    before: Plan,
    after: Plan,
    why: Why,
    *,
    spilled_bytes: int = 0,
    users: Sequence[GpuProcess] = (),
) -> Notice:
    """Notice of what became smaller, why, and which program holds the GPU's memory."""
    change = change_of(before, after)
    return Notice(
        code="plan-changed",
        case=why,
        severity="warning",
        params={
            "why": why,
            "change": change,
            "size": memory_text(spilled_bytes),
            "dtype": _dtype_before(change),
            "gpu_user": _largest_user(users),
        },
    )


def _dtype_before(change: Message) -> Param:
    """Dtype that was too narrow; sums are only wider than they were where that was float16."""
    inner = change.params.get("change")
    if isinstance(inner, Message):  # of a first pass
        return _dtype_before(inner)
    return change.params["before"] if change.code == "change.dtype" else "float16"


def change_of(before: Plan, after: Plan) -> Message:
    """The main difference alone: "clips of 9 instead of 21 frames"."""
    return next(_changes(before, after), message("change.smaller-pieces"))


def no_smaller(plan: Plan, free_bytes: int, users: Sequence[GpuProcess] = ()) -> OutOfMemory:
    """The error where even the smallest plan ran out of memory.

    Args:
        plan: The smallest one.
        free_bytes: Free bytes of the GPU, or of RAM where the CPU computes.
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
    if before.first_pass is not None and after.first_pass is not None:
        for change in _changes_of(before.first_pass, after.first_pass):
            yield message("change.first-pass", change=change)
    yield from _changes_of(before.work, after.work)
    was, is_ = registry.decoding(before), registry.decoding(after)
    if was is not None and is_ is not None:
        yield from _changes_of(was, is_)


def _changes_of(old: WorkPlan, new: WorkPlan) -> Iterator[Message]:
    """Differences of two plans of one pass."""
    if old.dtype != new.dtype:
        yield message("change.dtype", before=old.dtype, after=new.dtype)
    if old.switches.vae.fp16_sums != new.switches.vae.fp16_sums:
        yield message("change.fp16-sums")
    if old.switches.run.pinned_transfers != new.switches.run.pinned_transfers:
        yield message("change.unpinned")
    if old.switches.dit.fp16_sums != new.switches.dit.fp16_sums:
        yield message("change.fp16-products")
    if old.family == new.family:
        yield from registry.family_of(new).changes(old, new)
