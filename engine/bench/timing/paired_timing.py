"""Two pieces of work in turns, as often as their scatter asks for."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from engine.bench.timing.peak_rates import clocked

Work = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often work takes turns.

    Attributes:
        least: Turns in any case; a scatter is known from two on.
        most: Turns at most.
        scatter: Turns go on until the standard error is below this share.
        seconds: That pass before no further turn begins; the least number of turns is taken anyway.
    """

    least: int = 3
    most: int = 9
    scatter: float = 0.01
    seconds: float = 8.0

    @classmethod
    def exactly(cls, turns: int) -> Effort:
        """A number of turns that scatter does not change."""
        return cls(least=turns, most=turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How much longer one piece of work takes than another.

    Attributes:
        value: Median of the ratios of all turns.
        scatter: Standard error of that median; None after a single turn.
        turns: How often both were timed.
    """

    value: float
    scatter: float | None
    turns: int

    @property
    def inverse(self) -> Ratio:
        """The other piece of work over this one."""
        scatter = None if self.scatter is None else self.scatter / self.value**2
        return Ratio(value=1 / self.value, scatter=scatter, turns=self.turns)


def compare(work: Work, other: Work, device: str, effort: Effort) -> Ratio:
    """Time of `work` over that of `other`, on the clock that suits the device.

    Both run once in each turn, so that whatever else the machine does hits both, and who begins
    changes from turn to turn. Warming up is left to the caller.
    """
    found: list[float] = []
    end = time.perf_counter() + effort.seconds
    while len(found) < effort.least or (
        len(found) < effort.most and not _settled(found, effort) and time.perf_counter() < end
    ):
        found.append(_turn(work, other, device, begins=len(found) % 2 == 0))
    return ratio_of(found)


def ratio_of(found: list[float]) -> Ratio:
    """The ratio that those of some turns stand for."""
    return Ratio(value=statistics.median(found), scatter=_scatter(found), turns=len(found))


def _turn(work: Work, other: Work, device: str, *, begins: bool) -> float:
    order = (work, other) if begins else (other, work)
    first, second = (clocked(one, device, runs=1, warm_ups=0).seconds for one in order)
    mine, theirs = (first, second) if begins else (second, first)
    return mine / max(theirs, 1e-9)


def _settled(found: list[float], effort: Effort) -> bool:
    scatter = _scatter(found)
    return scatter is not None and scatter < effort.scatter * statistics.median(found)


def _scatter(found: list[float]) -> float | None:
    """Standard error of a median: that of the mean, a quarter more."""
    if len(found) < 2:
        return None
    return float(1.25 * statistics.stdev(found) / len(found) ** 0.5)
