"""A frame cut into overlapping tiles of one shape; integers only."""

from __future__ import annotations

from math import ceil

from engine.geometry import Box, Size


def tile_grid(frame: Size, tile: Size, overlap: int) -> list[Box]:
    """Boxes of one shape that cover the frame, row by row.

    Neighbours share at least `overlap` pixels; the last tile of a row ends exactly at the edge of
    the frame, and the surplus is spread over the row, so that every tile has the same shape (a
    device plans its convolutions once).

    Args:
        frame: Size of the whole picture.
        tile: Wanted size of a tile; a side of at least the frame's means one tile on that axis.
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


def _starts(length: int, tile: int, overlap: int) -> list[int]:
    if tile >= length:
        return [0]
    if 2 * overlap >= tile or overlap < 0:
        raise ValueError(f"an overlap of {overlap} leaves nothing of a tile of {tile}")
    count = ceil((length - overlap) / (tile - overlap))
    return [round(i * (length - tile) / (count - 1)) for i in range(count)]
