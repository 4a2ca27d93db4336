"""Which tiles are tried: one edge after the other, so that plans can be told and compared."""

from __future__ import annotations

from engine.geometry import Size

EDGES = (6144, 4096, 3072, 2048, 1536, 1280, 1024, 896, 768, 640, 512, 448, 384, 320, 256)  # px


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
