"""The best plan of SwiftVR that fits, and the plans next to it: blocks on the device, formats.

Frames are whole and chunks have one length, so blocks are all that a plan decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engine.core.messages import Message, message
from engine.models.contracts import Step
from engine.models.planning.candidates import Axis, first_fit, next_smaller, step_to, steps_of
from engine.models.planning.memory import Room
from engine.models.swiftvr import files
from engine.models.swiftvr.plan import SwiftVrPlan
from engine.models.swiftvr.requirements import needs, streamed_bytes
from engine.settings.requirements import CUDA, MATMUL

PRODUCTS = ("none", "int8", "fp8")  # formats of matrix products, the most exact first
_BLOCKS_STEP = 6  # fewer that stay, from one plan to the next
_FEWER_BLOCKS = 3 / 4  # of those that stay, after a lack of memory


def refused(device: str, capability: tuple[int, int] | None) -> tuple[str, ...]:
    """Formats of products that a device cannot multiply."""
    kinds = (kind for kind in PRODUCTS if kind != "none")
    least = {kind: MATMUL[kind] for kind in kinds}
    return tuple(
        kind
        for kind, needs in least.items()
        if device not in needs.devices
        or (device == CUDA and needs.capability and (capability or (0, 0)) < needs.capability)
    )


def fitted(plan: SwiftVrPlan, room: Room) -> SwiftVrPlan:
    """The plan with the most blocks on the device that the room holds; else the smallest one.

    Args:
        plan: The largest; what the user chose is the largest there.
        room: Available memory.
    """
    axis = blocks_axis(plan)
    counts = axis.down(plan)
    fits = first_fit(counts, lambda stay: room.holds(_pinned(axis.on(plan, stay), room)))
    return _pinned(axis.on(plan, fits[0] if fits else counts[-1]), room)


def _pinned(plan: SwiftVrPlan, room: Room) -> SwiftVrPlan:
    """Plan with copies of streamed weights in pinned memory, as far as they fit."""
    streamed = streamed_bytes(plan)
    plan = replace(plan, pin_bytes=0)
    copies = min(streamed, room.spare_ram(plan), room.most_pinned) if streamed else 0
    return replace(plan, pin_bytes=max(0, copies))


def smaller(plan: SwiftVrPlan) -> SwiftVrPlan | None:
    """Plan with fewer blocks on the device; None at the minimum."""

    def bytes_of(one: SwiftVrPlan) -> dict[str, int]:
        return {"": needs(one).device}

    return next_smaller(plan, [("", blocks_axis(plan).less(plan))], bytes_of)


def less_on_host(plan: SwiftVrPlan) -> SwiftVrPlan | None:
    """Plan without copies of weights in pinned memory."""
    return replace(plan, pin_bytes=0) if plan.pin_bytes else None


def steps(plan: SwiftVrPlan) -> Iterator[Step]:
    """Other blocks, and other formats of matrix products."""
    if plan.device != "cuda":
        return
    yield from steps_of(plan, [blocks_axis(plan)])
    if files.products_of(plan.dit) != "none":
        return  # its matrices are in that format
    for kind in PRODUCTS:
        if kind == plan.products:
            continue
        text = message("step.matmul", format=kind)
        if kind == "none":
            text = message("step.matmul-plain", dtype=plan.dtype)
        step = step_to(replace(plan, products=kind), f"matmul-{kind}", text, is_more=False)
        yield replace(step, setting=f"matmul={kind}", params={"matmul": kind})


def blocks_axis(plan: SwiftVrPlan) -> Axis[SwiftVrPlan]:
    """Numbers of blocks on the device, all of them first."""
    layers = files.configs(plan)[0].layers
    counts = (None, *range(layers - _BLOCKS_STEP, 0, -_BLOCKS_STEP), 0)
    return Axis(
        field="blocks_on_device",
        values=counts,
        more_code="more-blocks-on-card",
        less_code="fewer-blocks-on-card",
        text=_blocks_text,
        put=_with_blocks,
        fewer=(None, *range(layers - 1, -1, -1)),
        share=_FEWER_BLOCKS,
    )


def _with_blocks(plan: SwiftVrPlan, blocks: int | None) -> SwiftVrPlan:
    """Plan with n blocks on the device, and copies of no more than the others."""
    other = replace(plan, blocks_on_device=blocks)
    return replace(other, pin_bytes=min(plan.pin_bytes, streamed_bytes(other)))


def _blocks_text(plan: SwiftVrPlan) -> Message:
    whole = plan.blocks_on_device is None
    return message("step.whole-model" if whole else "step.blocks", blocks=plan.blocks_on_device)
