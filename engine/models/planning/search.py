"""The largest plan that fits: what a job has room for, pairs of variants, sizes of tiles."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from engine.core.geometry import Size
from engine.hardware.budget import Budget
from engine.models.planning.memory import Needs
from engine.protocol.plan import WorkPlan

EDGES = (6144, 4096, 3072, 2048, 1536, 1280, 1024, 896, 768, 640, 512, 448, 384, 320, 256)  # px
_APART = 1.2  # times as many px, at least, has the next larger tile that is worth trying
_MOST_OBLONG = 4  # sides of a tile


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a job may take, and what it would take with one plan of its model or another.

    Attributes:
        budget: What the machine has.
        ram: Bytes of main memory of the whole program.
        device: Bytes of the GPU.
        seconds: Of the model alone, for all frames of the job.
    """

    budget: Budget
    ram: Callable[[WorkPlan], int]
    device: Callable[[WorkPlan], int]
    seconds: Callable[[WorkPlan], float]

    def holds(self, work: WorkPlan) -> bool:
        """Whether a job stays within main memory and the memory of the GPU."""
        fits_card = work.device != "cuda" or self.device(work) <= self.budget.vram_bytes
        return fits_card and self.holds_ram(work)

    def holds_ram(self, work: WorkPlan) -> bool:
        """Whether it stays within main memory."""
        return self.ram(work) <= self.budget.ram_bytes


def fits(needs: Needs, device: str, budget: Budget, host_bytes: int) -> bool:
    """Whether a job stays within the budget of main memory and of the GPU.

    Args:
        needs: Of the model.
        device: Where it runs.
        budget: What the machine has.
        host_bytes: That the rest of the job takes of main memory.
    """
    if device == "cuda":
        in_ram = host_bytes + needs.host <= budget.ram_bytes
        return in_ram and needs.device <= budget.vram_bytes
    return host_bytes + needs.host + needs.device <= budget.ram_bytes


def pairs_within(
    first: int, second: int, fits: Callable[[int, int], bool]
) -> Iterator[tuple[int, int]]:
    """Places in two lists of ways that fit together, of which no pair beats another.

    Args:
        first: Length of a list that begins with the way that takes most and is fastest.
        second: The same of the other.
        fits: Whether two ways, by place, fit together; asked for a few of them only.
    """
    if not (first and second and fits(first - 1, second - 1)):
        return
    most = _place(first, lambda place: fits(place, second - 1))
    beaten = first
    for other in range(_place(second, lambda place: fits(first - 1, place)), second):
        place = _place(first, partial(_turned(fits), other))
        if place < beaten:
            yield place, other
        beaten = min(place, beaten)
        if beaten <= most:
            return


def _place(count: int, fits: Callable[[int], bool]) -> int:
    """The first place that fits; the last one is known to.

    The first way may be of another kind than the rest, which take less and less.
    """
    if fits(0):
        return 0
    return min(bisect_left(range(count), True, 1, key=fits), count - 1)


def _turned(fits: Callable[[int, int], bool]) -> Callable[[int, int], bool]:
    return lambda second, first: fits(first, second)


# --- tiles


def tile_of(edge: int, frame: Size) -> Size | None:
    """A tile of a requested edge, 0 for none; None where it would be the whole frame."""
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


def next_tiles(
    worth: Sequence[Size], tile: Size | None, *, more: bool, whole: bool
) -> Iterator[Size | None]:
    """The next larger or smaller tile, if there is one.

    Args:
        worth: Tiles worth trying, the largest first.
        tile: The present one; None for whole frames.
        more: Larger ones are asked for.
        whole: Whole frames, None, come after the largest tile.
    """
    if tile is None:
        if not more:
            yield from worth[:1]
        return
    if not more:
        yield from [one for one in worth if one.pixels < tile.pixels][:1]
        return
    larger = [one for one in worth if one.pixels > tile.pixels]
    if larger:
        yield larger[-1]
    elif whole:
        yield None
