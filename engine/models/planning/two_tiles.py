"""Whether two tiles at once may gain something.

A GPU computes a convolution in blocks of its result, so many at a time as its multiprocessors hold,
wave after wave; the last wave leaves some of them idle. Work of another stream can fill those. No
GPU has shown how much of it that saves: what follows is where nothing can be saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from engine.models.video_vae.workload import Launch

AT_ONCE = 2
Launches: TypeAlias = "Callable[[], Sequence[Launch]]"

_BLOCK = 128  # positions and channels of the part of a result that a block computes
_RESIDENT = 2  # blocks on a multiprocessor: each has sums of 128 x 128 in half of its registers
_WORTH = 0.9  # of the time one after the other, at most, is worth a second tile in memory


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
