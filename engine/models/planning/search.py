"""What a job has room for, and the largest of several ways that still fits."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from engine.hardware.budget import Budget
from engine.protocol.plan import ModelPlan


class Needs(Protocol):
    """Bytes of a job."""

    @property
    def device(self) -> int:
        """Most bytes on the device at once."""
        ...

    @property
    def host(self) -> int:
        """Bytes of main memory, device or not."""
        ...

    @property
    def weights(self) -> int:
        """Bytes of weights on the device."""
        ...

    @property
    def stages(self) -> dict[str, int]:
        """Bytes on the device while each stage works, weights included."""
        ...

    @property
    def hosts(self) -> dict[str, int]:
        """Bytes of main memory while each stage works, and of "finishing"."""
        ...

    @property
    def finishing(self) -> int:
        """Bytes on the device when frames are finished, weights apart."""
        ...

    @property
    def finished(self) -> int:
        """Frames that are finished at a time."""
        ...

    @property
    def waiting(self) -> int:
        """Frames of the source that wait for their result."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a job may take, and what it would take with its model run in one way or another.

    Attributes:
        budget: What the machine has.
        ram: Bytes of main memory of the whole program.
        device: Bytes of the card.
        seconds: Of the model alone, for all frames of the job.
    """

    budget: Budget
    ram: Callable[[ModelPlan], int]
    device: Callable[[ModelPlan], int]
    seconds: Callable[[ModelPlan], float]

    def holds(self, model: ModelPlan) -> bool:
        """Whether a job stays within main memory and the memory of the card."""
        fits_card = model.device != "cuda" or self.device(model) <= self.budget.vram_bytes
        return fits_card and self.holds_ram(model)

    def holds_ram(self, model: ModelPlan) -> bool:
        """Whether it stays within main memory."""
        return self.ram(model) <= self.budget.ram_bytes


def fits(needs: Needs, device: str, budget: Budget, host_bytes: int) -> bool:
    """Whether a job stays within the budget of main memory and of the card.

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
