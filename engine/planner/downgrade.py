"""From a plan that did not work to the next smaller one, in numbers and in words; no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from engine.core.errors import OutOfMemory
from engine.core.geometry import Size
from engine.core.units import memory_text
from engine.hardware.budget import PROGRAM_BYTES
from engine.models.seedvr2.planning import choose as seedvr2
from engine.models.seedvr2.planning.requirements import STEP
from engine.models.wan.planning import choose as wan
from engine.planner import peaks
from engine.planner.families import tiles_per_frame
from engine.planner.plan_job import smaller_model, wider_model
from engine.protocol.gpu_reading import GpuProcess
from engine.protocol.plan import (
    DiffusionPlan,
    ModelPlan,
    Notice,
    Plan,
    StagePlan,
    WanPlan,
)

Why = Literal["out-of-memory", "spilled", "overflow"]
_MIB = 2**20


def next_plan(plan: Plan, why: Why, *, of_main_memory: bool = False) -> Plan | None:
    """The plan to go on with; None where there is none.

    Args:
        plan: That did not work.
        why: What was wrong with it.
        of_main_memory: Main memory was short, not that of a card.
    """
    model = plan.model
    if why == "overflow":
        other = wider_model(model)
    else:
        other = (_less_on_host(model) if of_main_memory else None) or smaller_model(model)
    return None if other is None else with_model(plan, other)


def with_model(plan: Plan, model: ModelPlan) -> Plan:
    """A plan with its model run in another way, and the memory that this takes."""
    plan = replace(plan, model=model)
    plan = replace(plan, model=replace(model, tiles=tiles_per_frame(plan)))
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
    narrow = before.model.dtype if before.latent is None else before.latent.dtype
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


def change_of(before: Plan, after: Plan) -> str:
    """What is different, the most telling thing alone: "clips of 9 instead of 21 frames"."""
    return next(_changes(before, after), "smaller pieces")


def no_smaller(plan: Plan, free_bytes: int, holders: Sequence[GpuProcess] = ()) -> OutOfMemory:
    """The error at the floor: what the smallest plan needs, what was free, what could help.

    Args:
        plan: The smallest one.
        free_bytes: Of the card, or of main memory where the processor computes.
        holders: Programs that hold memory of the card.
    """
    on_card = plan.model.device == "cuda"
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
        device=plan.model.device,
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


def _less_on_host(model: ModelPlan) -> ModelPlan | None:
    """What takes less main memory on a card; a processor has but one memory."""
    if model.device == "cpu":
        return None
    return seedvr2.less_on_host(model) or wan.less_on_host(model)


# --- words


def _changes(before: Plan, after: Plan) -> Iterator[str]:
    old, new = before.model, after.model
    if old.dtype != new.dtype:
        yield f"numbers of {new.dtype} instead of {old.dtype}"
    if old.diffusion is not None and new.diffusion is not None:
        yield from _of_diffusion(old.diffusion, new.diffusion)
    elif old.wan is not None and new.wan is not None:
        yield from _of_wan(old.wan, new.wan)
    elif old.clip_frames != new.clip_frames:
        yield f"{new.clip_frames} instead of {old.clip_frames} frames at a time"
    elif old.tile != new.tile:
        yield f"tiles of {new.tile} instead of {old.tile}"
    if before.latent is not None and after.latent is not None:
        if before.latent.dtype != after.latent.dtype:
            yield f"numbers of {after.latent.dtype} instead of {before.latent.dtype}"
        yield from _tiles("decoding", before.latent.decode_tile, after.latent.decode_tile)


def _of_diffusion(old: DiffusionPlan, new: DiffusionPlan) -> Iterator[str]:
    if old.vae_dtype != new.vae_dtype:
        yield f"numbers of {new.vae_dtype} instead of {old.vae_dtype}"
    if old.clip != new.clip:
        yield f"clips of {_frames(new)} instead of {_frames(old)} frames"
    yield from _tiles("decoding", old.decode_tile, new.decode_tile)
    yield from _tiles("encoding", old.encode_tile, new.encode_tile)
    if old.blocks_on_device != new.blocks_on_device:
        if old.blocks_on_device is None:
            yield f"{new.blocks_on_device} blocks of the model kept loaded instead of all of it"
        else:
            yield (
                f"{new.blocks_on_device} instead of {old.blocks_on_device} blocks of the model "
                "kept loaded"
            )
    yield from _waiting(old.warm_up, new.warm_up)
    if old.pin_bytes != new.pin_bytes:
        yield "fewer copies of the model in main memory"


def _of_wan(old: WanPlan, new: WanPlan) -> Iterator[str]:
    yield from _tiles("decoding", old.decode_tile, new.decode_tile)
    yield from _tiles("encoding", old.encode_tile, new.encode_tile)
    yield from _waiting(old.warm_up, new.warm_up)
    if old.parks != new.parks:
        yield "the states of whole frames waiting in main memory"


def _tiles(doing: str, old: Size | None, new: Size | None) -> Iterator[str]:
    if old != new:
        yield f"{doing} in tiles of {new} instead of {old or 'whole frames'}"


def _waiting(old: int, new: int) -> Iterator[str]:
    if old != new:
        yield "tiles that begin early instead of keeping their state"


def _frames(plan: DiffusionPlan) -> int:
    return 1 + (plan.clip - 1) * STEP if plan.join == "latents" else plan.clip
