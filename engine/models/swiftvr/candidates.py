"""The best plan of SwiftVR that fits, and the plans next to it: blocks on the device, formats.

Frames are whole and chunks have one length, so blocks are all that a plan decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engine.models.contracts import Step
from engine.models.planning import transformers
from engine.models.planning.candidates import Axis, first_fit, next_smaller, steps_of
from engine.models.planning.memory import Room
from engine.models.planning.transformers import format_steps, with_copies
from engine.models.swiftvr import files
from engine.models.swiftvr.plan import SwiftVrPlan
from engine.models.swiftvr.requirements import needs, streamed_bytes
from engine.settings.requirements import CUDA, MATMUL

PRODUCTS = ("none", "int8", "fp8")  # formats of matrix products, the most exact first
_BLOCKS_STEP = 6  # fewer that stay, from one plan to the next


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

    def with_blocks(stay: int | None) -> SwiftVrPlan:
        some = axis.on(plan, stay)
        return with_copies(some, room, streamed_bytes(some))

    fits = first_fit(counts, lambda stay: room.holds(with_blocks(stay)))
    return with_blocks(fits[0] if fits else counts[-1])


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
    if files.products_of(plan.dit) == "none":  # no matrices of a file in another format
        yield from format_steps(plan, PRODUCTS)


def blocks_axis(plan: SwiftVrPlan) -> Axis[SwiftVrPlan]:
    """Numbers of blocks on the device, all of them first."""
    layers = files.configs(plan)[0].layers
    counts = (None, *range(layers - _BLOCKS_STEP, 0, -_BLOCKS_STEP), 0)
    return transformers.blocks_axis(counts, layers - 1, streamed_bytes)
