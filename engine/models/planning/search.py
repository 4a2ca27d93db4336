"""Memory that plans need, and the search for the largest plan that fits: pairs, sizes of tiles."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, TypeVar

from engine.core.geometry import Size
from engine.hardware.budget import Budget
from engine.protocol.plan import WorkPlan

EDGES = (6144, 4096, 3072, 2048, 1536, 1280, 1024, 896, 768, 640, 512, 448, 384, 320, 256)  # px
AT_ONCE = 2  # tiles in work at the same time, with the switch `two_tiles`
P = TypeVar("P", bound=WorkPlan)

_PINNED_SHARE = 0.4  # of main memory: with more of it pinned, systems begin to fail elsewhere
_APART = 1.05  # times as many px, at least, has the next larger tile that is worth trying
_MOST_OBLONG = 4  # sides of a tile


@dataclass(frozen=True, slots=True)
class PhaseMemory:
    """Bytes that are allocated at the same time, without weights.

    Attributes:
        device: Bytes of the device that computes.
        host: Bytes of RAM; where the CPU computes, both lie there.
    """

    device: int
    host: int = 0

    def __add__(self, other: PhaseMemory) -> PhaseMemory:
        return PhaseMemory(self.device + other.device, self.host + other.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """Memory of shots that stream through one direction of a VAE.

    Attributes:
        begins: During the first slices of a shot.
        steady: During each phase of all other slices.
        between: Between slices, while frames are prepared or finished.
        waits: While the other direction or another model works.
        buffers: Bytes on the device that are kept between slices until the room is needed.
        parks: Bytes of carries that leave the device after each visit of all tiles and come back
            for the next one.
        opens: Part of them that `begins` counts; the rest exists since another shot.
        canvas: Bytes on the host of finished frames that are on their way out.
        result: Bytes on the device of what a slice gave.
    """

    begins: PhaseMemory
    steady: tuple[PhaseMemory, ...]
    between: PhaseMemory
    waits: PhaseMemory
    buffers: int
    parks: int = 0
    opens: int = 0
    canvas: int = 0
    result: int = 0


def peak_use(uses: Iterable[PhaseMemory], *, on_gpu: bool) -> PhaseMemory:
    """Most bytes of the device, and of main memory; where that is one, of both together."""
    found = list(uses)
    most = max(use.device for use in found)
    if on_gpu:
        return PhaseMemory(most, max(use.host for use in found))
    return PhaseMemory(most, max(use.device + use.host for use in found) - most)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequirement:
    """Bytes of a job that its model needs.

    Attributes:
        weights: On the device, for as long as the job runs.
        working: Next to them on the device while each stage of the model works, by its name.
        finishing: Bytes when frames are finished: those of the job then, and the frames.
        between: Bytes while none of it works: those kept for the next frames.
        hosts: In main memory while each stage works, and of "finishing" and "between", device or
            not: carries that wait, canvases, frames on their way; none for stages not in it.
        finished: Frames that are finished at a time.
        waiting: Frames of the source that wait for their result.
        sources: Bytes of those that wait, in main memory too.
    """

    weights: int
    working: dict[str, int]
    finishing: int
    between: int = 0
    hosts: dict[str, int] = field(default_factory=dict)
    finished: int = 1
    waiting: int = 0
    sources: int = 0

    @property
    def stages(self) -> dict[str, int]:
        """Bytes on the device while each stage works, weights included."""
        return {name: self.weights + size for name, size in self.working.items()}

    @property
    def device(self) -> int:
        """Most bytes on the device at once."""
        return max(self.stages.values())

    @property
    def host(self) -> int:
        """Most bytes of main memory at once, device or not."""
        return max(self.hosts.values(), default=0) + self.sources


# --- what fits


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Memory that a job may take, and its use with one plan of its model or another.

    Attributes:
        budget: Budget of the computer.
        ram: Bytes of main memory of the whole program.
        device: Bytes of the GPU.
        seconds: Seconds of the model alone, for all frames of the job.
        frames: Number of frames of the job.
        processes: Number of processes that make it, each with pinned memory of its own.
    """

    budget: Budget
    frames: int
    ram: Callable[[WorkPlan], int]
    device: Callable[[WorkPlan], int]
    seconds: Callable[[WorkPlan], float]
    processes: int = 1

    @property
    def most_pinned(self) -> int:
        """Bytes of main memory that a process may pin."""
        return int(_PINNED_SHARE * self.budget.ram_bytes) // self.processes

    def spare_ram(self, work: WorkPlan) -> int:
        """Bytes of main memory that are left for each process."""
        return (self.budget.ram_bytes - self.ram(work)) // self.processes

    def holds(self, work: WorkPlan) -> bool:
        """Whether a job stays within main memory and the memory of the GPU."""
        fits_gpu = work.device != "cuda" or self.device(work) <= self.budget.vram_bytes
        return fits_gpu and self.holds_ram(work)

    def holds_ram(self, work: WorkPlan) -> bool:
        """Whether it stays within main memory."""
        return self.ram(work) <= self.budget.ram_bytes


def pairs_within(
    first: int, second: int, fits: Callable[[int, int], bool]
) -> Iterator[tuple[int, int]]:
    """Indices of the best pairs of two lists of variants: no other pair that fits has both earlier.

    Args:
        first: Length of the first list, from the variant that takes most memory and is fastest on.
        second: Length of the other list.
        fits: Whether a pair, by its indices, fits; asked for a few of them only.
    """
    if not (first and second and fits(first - 1, second - 1)):
        return
    most = _first_fit(first, lambda place: fits(place, second - 1))
    beaten = first
    for other in range(_first_fit(second, lambda place: fits(first - 1, place)), second):
        place = _first_fit(first, partial(_turned(fits), other))
        if place < beaten:
            yield place, other
        beaten = min(place, beaten)
        if beaten <= most:
            return


def with_two_at_once(plan: P, room: Room, tiled: Iterable[str]) -> P:
    """The plan with two tiles at a time in each direction where there is room.

    No GPU has shown how much time that saves, so the switch is off by default.

    Args:
        plan: Plan that the room holds with one tile at a time.
        room: Available memory.
        tiled: Field of the plan that says how many, of each direction with tiles. A VAE that is
            compiled gets one: what the compiler keeps between calls is not for two streams.
    """
    switches = plan.switches
    if plan.device != "cuda" or not switches.run.two_tiles or switches.vae.compile:
        return plan
    for name in tiled:
        at_once: dict[str, Any] = {name: AT_ONCE}
        more = replace(plan, **at_once)
        if room.holds(more):
            plan = more
    return plan


def _first_fit(count: int, fits: Callable[[int], bool]) -> int:
    """Index of the first variant that fits; the last one is known to.

    The first may be of another kind than the rest, which take less and less.
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
    """The next smaller tile of a frame; None at the minimum.

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
    """Numbers of cuts of a side, and the shortest tiles that do it; the whole side first."""
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
