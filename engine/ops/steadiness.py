"""Steadiness over time: where a video stands still, and frames blended with their neighbours there.

A model that redraws frames one by one draws the noise of each frame differently. Where the source
stands still, frames next to each other show the same, and their mean has less of it.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

SHARE = 0.25  # of each neighbour, where the video stands still: a frame itself has half
REACH = 8  # px of the source around motion in which nothing counts as still
_CELL = 4  # px; a difference is averaged over boxes of two cells
_BLOCK = 16  # px, of the pieces of which the quietest show the noise
_QUIETEST = 0.1  # of the blocks
_LEAST_NOISE, _MOST_NOISE = 0.5, 8.5  # RMS of a difference of frames, in 8-bit levels
_STILL, _MOVES = 1.5, 2.5  # mean square of a difference over that of noise
_LEVELS = 255.0


def stillness(first: Tensor, second: Tensor) -> Tensor:
    """Stillness of a video between two frames, pixel by pixel.

    Still is where the frames differ by no more than their noise: the mean square of the difference
    over a box is compared with that of the quietest blocks. Noise counts up to a standard
    deviation of 6 levels of a frame; what changes by more is motion. Depends on nothing but the
    two frames.

    Args:
        first: [3, h, w] float32, RGB, nominally 0 to 1.
        second: The frame after it.

    Returns:
        [h, w] float32: 1 is still, 0 moves, also next to motion.

    Memory: three times [3, h, w].
    """
    difference = second - first
    squares = difference.square().mean(0, keepdim=True)[None]
    boxes = F.avg_pool2d(
        squares, 2 * _CELL, _CELL, _CELL // 2, ceil_mode=True, count_include_pad=False
    ).div_(_noise(difference, squares))
    reach = REACH // _CELL
    worst = F.max_pool2d(boxes, 2 * reach + 1, 1, reach)
    cells = worst.neg_().add_(_MOVES).div_(_MOVES - _STILL).clamp_(0, 1)[0, 0]
    height, width = first.shape[-2:]
    return cells.repeat_interleave(_CELL, 0).repeat_interleave(_CELL, 1)[:height, :width]


def _noise(difference: Tensor, squares: Tensor) -> Tensor:
    """Mean square of the noise of a difference [3, h, w]: one value, which stays on its device.

    Blocks without any difference do not count: black bars and blocks that a codec repeats have no
    noise to be compared with.
    """
    side = min(_BLOCK, *difference.shape[-2:])
    means = F.avg_pool2d(difference[None], side).square_().mean(1)
    spread = F.avg_pool2d(squares, side)[:, 0].sub_(means).flatten().clamp_(min=0).sort().values
    empty = (spread == 0).sum(0, keepdim=True)
    place = empty + ((len(spread) - empty) * _QUIETEST).long()
    found = spread.gather(0, place.clamp_(max=len(spread) - 1))
    return found.clamp_((_LEAST_NOISE / _LEVELS) ** 2, (_MOST_NOISE / _LEVELS) ** 2)


def exchange(first: Tensor, second: Tensor, still: Tensor) -> Tensor:
    """Light that a frame gets of the next one, which loses as much.

    Added to the first and taken from the second, for all pairs of neighbours, it makes each frame
    the mean of itself, twice, and both neighbours where all are still. A pixel that moves stays as
    it is, bit for bit.

    Args:
        first: [3, H, W] float32, of the result, as the model made it.
        second: The frame after it.
        still: [h, w], `stillness` of the same frames of the source.

    Returns:
        [3, H, W] float32.

    Memory: the result and a third of it.
    """
    return (second - first).mul_(enlarged(still, first).mul_(SHARE))


def enlarged(still: Tensor, frame: Tensor) -> Tensor:
    """`still`, [h, w], at the size of a frame [3, H, W]: [1, H, W], at most 1 px blurred."""
    size = frame.shape[-2:]
    return F.interpolate(still[None, None], size, mode="bilinear", align_corners=False)[0]
