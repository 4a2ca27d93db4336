"""Grid of overlapping tiles of one shape over a frame; integers only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import Literal

from engine.core.geometry import Box, Size

Span = tuple[int, int]  # first pixel inside, first pixel outside


def tile_grid(frame: Size, tile: Size, overlap: int) -> list[Box]:
    """Boxes of one shape that cover the frame, row by row.

    Neighbours share at least `overlap` pixels; the last tile of a row ends exactly at the edge of
    the frame, and the surplus overlap is spread over the row, so that every tile has the same shape
    (a device plans its convolutions once).

    Args:
        frame: Size of the whole picture.
        tile: Largest size of a tile; a side of at least the frame's means one tile on that axis.
        overlap: Pixels shared with a neighbour, less than half of a tile.

    Raises:
        ValueError: An empty size, or an overlap of half a tile or more on an axis that is cut.
    """
    if frame.is_empty or tile.is_empty:
        raise ValueError(f"nothing to tile: frame {frame}, tile {tile}")
    columns = _starts(frame.width, tile.width, overlap)
    rows = _starts(frame.height, tile.height, overlap)
    width, height = min(tile.width, frame.width), min(tile.height, frame.height)
    return [Box(x, y, width, height) for y in rows for x in columns]


def smallest_tile(frame: Size, tile: Size, shared: int) -> Size:
    """The smallest tile with which the grid has as many tiles as with `tile`.

    Args:
        frame: Size of the whole picture.
        tile: Largest tile.
        shared: Pixels shared with a neighbour.
    """
    return Size(
        _smallest(frame.width, tile.width, shared), _smallest(frame.height, tile.height, shared)
    )


def cells(frame: Size, boxes: Sequence[Box]) -> list[Box]:
    """The cell of each tile: its part of a partition of the frame.

    Seams run through the middle of the overlaps.
    """
    columns = cells_of_axis(boxes, "x", frame.width)
    rows = cells_of_axis(boxes, "y", frame.height)
    pairs = [(columns[box.x], rows[box.y]) for box in boxes]
    return [Box(x[0], y[0], x[1] - x[0], y[1] - y[0]) for x, y in pairs]


def cells_of_axis(boxes: Sequence[Box], axis: Literal["x", "y"], length: int) -> dict[int, Span]:
    """Start of each tile on an axis of `length` px -> its cell, from seam to seam."""
    if axis == "x":
        spans = sorted({(box.x, box.right) for box in boxes})
    else:
        spans = sorted({(box.y, box.bottom) for box in boxes})
    seams = [(left[1] + right[0]) // 2 for left, right in pairwise(spans)]
    edges = [0, *seams, length]
    return {span[0]: cell for span, cell in zip(spans, pairwise(edges), strict=True)}


def _starts(length: int, tile: int, overlap: int) -> list[int]:
    if tile >= length:
        return [0]
    if 2 * overlap >= tile or overlap < 0:
        raise ValueError(f"an overlap of {overlap} leaves nothing of a tile of {tile}")
    count = ceil((length - overlap) / (tile - overlap))
    return [round(i * (length - tile) / (count - 1)) for i in range(count)]


def _smallest(length: int, tile: int, shared: int) -> int:
    if tile >= length or tile <= 2 * shared:
        return tile
    count = ceil((length - shared) / (tile - shared))
    return max(2 * shared + 1, ceil((length + (count - 1) * shared) / count))
