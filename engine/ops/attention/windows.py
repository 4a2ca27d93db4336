"""Attention windows: how the tokens of a clip are cut, in integers only. Loads without torch.

The size of a window follows the shape of the frame and not its resolution: the rule asks how
many tokens the frame would have at 720p (45 x 80 of them) and cuts that into so many parts, so a
larger frame has more windows of the same size. Every other layer uses shifted windows, half a
window towards the origin; the first and last of them are cut at the border.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

Grid = tuple[int, int, int]

_USUAL_TOKENS = 45 * 80  # of a frame at 720p
_LONGEST = 30  # tokens in time that count


@dataclass(frozen=True, slots=True)
class Window:
    """A box of tokens: `t0 <= t < t1`, and so on."""

    t0: int
    t1: int
    h0: int
    h1: int
    w0: int
    w1: int

    @property
    def shape(self) -> Grid:
        """Tokens in time, height and width."""
        return self.t1 - self.t0, self.h1 - self.h0, self.w1 - self.w0

    @property
    def tokens(self) -> int:
        """Number of tokens in it."""
        return math.prod(self.shape)

    @property
    def slices(self) -> tuple[slice, slice, slice]:
        """Index of the window in a grid of tokens [T, H, W, ...]."""
        return slice(self.t0, self.t1), slice(self.h0, self.h1), slice(self.w0, self.w1)


def window_size(grid: Grid, counts: Grid) -> Grid:
    """Tokens of a whole window in time, height and width; some are larger than the grid.

    Args:
        grid: Tokens in time, height and width, each at least 1.
        counts: Parts that a clip of 720p and 30 tokens in time is cut into along each axis.
    """
    time, height, width = grid
    scale = math.sqrt(_USUAL_TOKENS / (height * width))
    return (
        math.ceil(min(time, _LONGEST) / counts[0]),
        math.ceil(round(height * scale) / counts[1]),  # half goes to even, as Python rounds
        math.ceil(round(width * scale) / counts[2]),
    )


def windows(grid: Grid, counts: Grid, shifted: bool) -> list[Window]:
    """The windows of one layer: together they hold every token exactly once.

    Args:
        grid: Tokens in time, height and width.
        counts: See `window_size`.
        shifted: Move them by half a window, along axes that have more than one.

    Returns:
        In the order of the published model: width outermost, then height, time innermost.
    """
    cut = _shifted_cuts if shifted else _cuts
    sizes = window_size(grid, counts)
    times, rows, columns = (cut(axis, size) for axis, size in zip(grid, sizes, strict=True))
    return [Window(*t, *h, *w) for w in columns for h in rows for t in times]


def _cuts(length: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(start + size, length)) for start in range(0, length, size)]


def _shifted_cuts(length: int, size: int) -> list[tuple[int, int]]:
    """Borders at half windows, odd ones truncated; empty windows at the end are left out."""
    if size >= length:
        return [(0, length)]
    count = math.ceil((length - 0.5) / size) + 1
    borders = [min(max(int((index - 0.5) * size), 0), length) for index in range(count + 1)]
    return [(start, stop) for start, stop in pairwise(borders) if start < stop]
