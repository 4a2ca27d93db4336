"""Whether two tiles at once may gain something, and plans that take two at a time.

A GPU computes a convolution in blocks of its result, so many at a time as its multiprocessors hold,
wave after wave; the last wave leaves some of them idle. Work of another stream can fill those. No
GPU has shown how much of it that saves: what follows is where nothing can be saved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from engine.models.planning.search import Room
from engine.models.video_vae.workload import Launch
from engine.protocol.plan import WorkPlan

AT_ONCE = 2
_BLOCK = 128  # positions and channels of the part of a result that a block computes
_RESIDENT = 2  # blocks on a multiprocessor: each has sums of 128 x 128 in half of its registers
_WORTH = 0.9  # of the time one after the other, at most, is worth a second tile in memory

P = TypeVar("P", bound=WorkPlan)
Launches = Callable[[], Sequence[Launch]]


def with_two_at_once(plan: P, room: Room, launches: Mapping[str, Launches]) -> P:
    """The plan with two tiles at a time in each direction where that may gain and there is room.

    Args:
        plan: That the room holds with one tile at a time.
        room: What there is. A GPU that is in no table gets one tile at a time.
        launches: Field of the plan that says how many -> convolutions of a slice of a tile;
            directions without tiles left out.
    """
    gpu = room.budget.gpu
    if plan.device != "cuda" or gpu is None or not plan.switches.run.two_tiles:
        return plan
    for name, found in launches.items():
        at_once: dict[str, Any] = {name: AT_ONCE}
        more = replace(plan, **at_once)
        if may_gain(found(), gpu.multiprocessors) and room.holds(more):
            plan = more
    return plan


def may_gain(launches: Sequence[Launch], multiprocessors: int) -> bool:
    """Whether one tile leaves so much of a GPU idle that a second one is worth its memory."""
    return share_of_time(launches, multiprocessors) <= _WORTH


def share_of_time(launches: Sequence[Launch], multiprocessors: int) -> float:
    """Time of two tiles at once over that of one after the other, if only whole waves counted.

    Both tiles are taken to reach the same convolution at the same time: a lower bound.

    Args:
        launches: Convolutions of a slice of a tile.
        multiprocessors: Of the GPU.
    """
    slots = _RESIDENT * multiprocessors
    together = in_turns = 0.0
    for launch in launches:
        blocks = -(-launch.positions // _BLOCK) * -(-launch.channels // _BLOCK)
        if not blocks:
            continue
        block = launch.multiplications / blocks
        together += -(-2 * blocks // slots) * block
        in_turns += 2 * -(-blocks // slots) * block
    return together / in_turns if in_turns else 1.0
