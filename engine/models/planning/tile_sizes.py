"""Which tiles are tried: one edge after the other, so that plans can be told and compared."""

from __future__ import annotations

from functools import lru_cache

from engine.core.geometry import Size

EDGES = (6144, 4096, 3072, 2048, 1536, 1280, 1024, 896, 768, 640, 512, 448, 384, 320, 256)  # px
_APART = 1.2  # times as many px, at least, has the next larger tile that is worth trying
_MOST_OBLONG = 4  # sides of a tile


def tile_of(edge: int, frame: Size) -> Size | None:
    """A tile of an edge that somebody wants, 0 for none; None where it would be the whole frame."""
    if not edge or edge >= max(frame.width, frame.height):
        return None
    edge = max(EDGES[-1], edge // 16 * 16)
    return Size(min(edge, frame.width), min(edge, frame.height))


def next_tile(tile: Size | None, frame: Size, least: int = EDGES[-1]) -> Size | None:
    """The next smaller tile of a frame; None at the floor.

    Args:
        tile: None for the whole frame.
        frame: In px.
        least: Smallest edge that works.
    """
    now = frame if tile is None else tile
    smaller = (edge for edge in EDGES if least <= edge < max(now.width, now.height))
    edge = next(smaller, None)
    return None if edge is None else Size(min(edge, frame.width), min(edge, frame.height))


@lru_cache(maxsize=256)
def tilings(frame: Size, shared: int, each: int, least: int = EDGES[-1]) -> tuple[Size, ...]:
    """Tiles worth trying, from the largest on: none is beaten in size and in work by another.

    Args:
        frame: In px.
        shared: Px that neighbours have in common.
        each: Sides of tiles are multiples of it.
        least: Smallest side, unless the frame's own is smaller.
    """
    sides = [_sides(length, shared, each, least) for length in (frame.width, frame.height)]
    found = sorted(
        (width * height, columns * rows * width * height, width)
        for columns, width in sides[0]
        for rows, height in sides[1]
        if columns * rows > 1 and max(width, height) <= _MOST_OBLONG * min(width, height)
    )
    worth: list[Size] = []
    best = None
    for pixels, work, width in found:  # from small tiles, which cost most, to large ones
        if (best is None or work < best) and (not worth or pixels > _APART * worth[-1].pixels):
            worth.append(Size(width, pixels // width))
            best = work
    return tuple(reversed(worth))


def _sides(length: int, shared: int, each: int, least: int) -> list[tuple[int, int]]:
    """How often a side is cut, and the shortest tiles that do it; the whole side first."""
    found, count = [(1, length)], 2
    while True:
        side = -(-(length + (count - 1) * shared) // (count * each)) * each
        if side < least or side <= 2 * shared:
            return found
        if side < found[-1][1]:
            found.append((count, side))
        count += 1


def smaller_tiles(wanted: Size | None, worth: tuple[Size, ...]) -> tuple[Size | None, ...]:
    """The wanted tile, or whole frames, and all smaller ones."""
    if wanted is None:
        return None, *worth
    edge = max(wanted.width, wanted.height)
    smaller = (t for t in worth if max(t.width, t.height) <= edge and t.pixels < wanted.pixels)
    return wanted, *smaller
