"""Sizes, lengths and joins of frames as the published program has them."""

from __future__ import annotations

import math

from torch import Tensor

from engine.core.geometry import Size
from engine.models.seedvr2.plan import STEP
from engine.ops.resize import resize


def reference_sizes(source: Size, short_side: int, longest: int = 0) -> tuple[Size, ...]:
    """The sizes that the reference resizes to, one after the other.

    The longer side follows the shorter one, rounded down. What has a side longer than `longest` px
    is resized once more; 0 is no such limit.
    """
    if source.width <= source.height:
        first = Size(short_side, int(short_side * source.height / source.width))
    else:
        first = Size(int(short_side * source.width / source.height), short_side)
    if not 0 < longest < max(first.width, first.height):
        return (first,)
    factor = longest / max(first.width, first.height)
    return first, Size(round(first.width * factor), round(first.height * factor))


def reference_result(resized: Size) -> Size:
    """The size of the reference's result: both sides rounded down to even."""
    return Size(resized.width // 2 * 2, resized.height // 2 * 2)


def clip_length(frames: int) -> int:
    """The shortest length of a clip, 1 + n * STEP, that takes so many frames."""
    return frames + -(frames - 1) % STEP


def resize_as_reference(frames: Tensor, short_side: int, longest: int = 0) -> Tensor:
    """Frames [T, 3, H, W] resized once or twice, to `reference_sizes`."""
    source = Size(frames.shape[-1], frames.shape[-2])
    for size in reference_sizes(source, short_side, longest):
        frames = resize(frames, size)
    return frames


def reference_overlap_weights(frames: int) -> list[float]:
    """The same as the reference has it: cosine in the middle third, hard cuts for 1, 2 and 4."""
    steps = [i / max(1, frames - 1) for i in range(frames)]
    if frames < 3:
        return [1 - s for s in steps]
    inner = (min(1.0, max(0.0, 3 * s - 1)) for s in steps)
    return [0.5 + 0.5 * math.cos(math.pi * u) for u in inner]


def mirrored_indices_before(count: int, extra: int) -> list[int]:
    """Indices 0 to `count` - 1 and `extra` mirrored before them; if short, the last index first."""
    mirrored = [*range(1, count), *[count - 1] * extra][:extra]
    return [*reversed(mirrored), *range(count)]
