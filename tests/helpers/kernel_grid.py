"""The GroupNorm kernels again, in Python: which thread takes which pixel, in which order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from engine.ops.kernels.group_norm import GroupNormGrid

INT_MAX = 2**31 - 1
Part = tuple[float, np.float32, np.float32]  # count, mean, m2


def walk(grid: GroupNormGrid, block: int, row: int) -> Iterator[tuple[int, int]]:
    """(y, x) of each pixel of a row of threads, as `PixelSteps` of the source steps."""
    first = block * grid.per_block
    end = min(first + grid.per_block, grid.pixels)
    pixel = first + row
    x, y = pixel % grid.width, pixel // grid.width
    step_x, step_y = grid.rows % grid.width, grid.rows // grid.width
    while pixel < end:
        assert max(first + grid.per_block, pixel + grid.rows) <= INT_MAX
        yield y, x
        pixel += grid.rows
        x, y = x + step_x, y + step_y
        if x >= grid.width:
            x, y = x - grid.width, y + 1


def addresses(grid: GroupNormGrid, strides: tuple[int, int, int]) -> Iterator[int]:
    """Offset of every number that the threads of a whole grid touch, in elements."""
    for frame in range(grid.frames):
        for block in range(grid.blocks):
            for row in range(grid.rows):
                for y, x in walk(grid, block, row):
                    base = frame * strides[0] + y * strides[1] + x * strides[2]
                    for lane in range(grid.lanes):
                        start = base + lane * grid.vector
                        yield from range(start, start + grid.vector)


def moments(frame: NDArray[np.float32], grid: GroupNormGrid, block: int) -> list[Part]:
    """Mean and m2 of each group of a block of a frame [H, W, C], in the kernel's order."""
    sub = min(grid.vector, grid.group)
    rows = [_row(frame, grid, block, row, sub) for row in range(grid.rows)]
    half = grid.rows // 2
    while half:
        rows = [[merge(a, b) for a, b in zip(*pair, strict=True)] for pair in _pairs(rows, half)]
        half //= 2
    pieces = grid.group // sub
    groups = []
    for start in range(0, len(rows[0]), pieces):
        whole = rows[0][start]
        for piece in rows[0][start + 1 : start + pieces]:
            whole = merge(whole, piece)
        groups.append(whole)
    return groups


def merge(one: Part, other: Part) -> Part:
    count = np.float32(one[0] + other[0])
    if count == 0:
        return one
    share = np.float32(other[0]) / count
    away = other[1] - one[1]
    m2 = one[2] + other[2] + away * away * np.float32(one[0]) * share
    return float(count), one[1] + away * share, m2


def _pairs(rows: list[list[Part]], half: int) -> Iterator[tuple[list[Part], list[Part]]]:
    return zip(rows[:half], rows[half:], strict=True)


def _row(
    frame: NDArray[np.float32], grid: GroupNormGrid, block: int, row: int, sub: int
) -> list[Part]:
    """What the threads of a row have seen: a part for each lane and segment."""
    segments = grid.channels // sub
    mean, m2 = np.zeros(segments, np.float32), np.zeros(segments, np.float32)
    seen = np.float32(0)
    for y, x in walk(grid, block, row):
        values = frame[y, x].reshape(segments, sub)
        share = np.float32(1) / (seen + 1)
        middle = values.mean(1)
        away = middle - mean
        mean = mean + away * share
        m2 = m2 + ((values - middle[:, None]) ** 2).sum(1) + away * away * (seen * share * sub)
        seen += np.float32(1)
    return [(float(seen * sub), mean[i], m2[i]) for i in range(segments)]
