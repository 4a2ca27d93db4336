"""Seconds of a piece of work: medians of some runs, seconds per unit, two kinds compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from engine.ops.trials import gpu_seconds

_ENOUGH_S = 0.4  # of work for `cost_of`
_BUSY_S = 0.02  # of work between two events of a GPU, of which launches are a small part
_MOST_CALLS = 50
Work = Callable[[], object]
Costs = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Medians of some runs."""

    seconds: float  # CPU seconds of all threads of the process, or seconds of the GPU
    wall_s: float


def measure(work: Work, device: str = "cpu", *, runs: int, warm_ups: int = 0) -> Timing:
    """Time a piece of work.

    Args:
        work: Runs once; on a GPU it is called again where it is short.
        device: "cuda" measures with events of the GPU, everything else in CPU seconds.
        runs: Runs of which the median counts.
        warm_ups: Runs before them that do not count.
    """
    once = _on_gpu if device == "cuda" else _on_cpu
    for _ in range(warm_ups):
        work()
    found = [once(work) for _ in range(runs)]
    return Timing(
        seconds=statistics.median(one.seconds for one in found),
        wall_s=statistics.median(one.wall_s for one in found),
    )


def _on_cpu(work: Work) -> Timing:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Timing(seconds=time.process_time() - cpu, wall_s=time.perf_counter() - wall)


def _on_gpu(work: Work) -> Timing:
    """Short work is called several times, so that the GPU need not wait for the host's launches."""
    once = _between_events(work, 1)
    calls = min(_MOST_CALLS, int(_BUSY_S / max(once.seconds, 1e-7)))
    return once if calls < 2 else _between_events(work, calls)


def _between_events(work: Work, calls: int) -> Timing:
    """Time of one of so many calls."""
    torch.cuda.synchronize()  # work before it, a warm-up for example, is not its own
    wall = time.perf_counter()
    seconds = gpu_seconds(work, calls)
    return Timing(seconds=seconds, wall_s=(time.perf_counter() - wall) / calls)


def cost_of(work: Work, units: float, *, device: str = "cpu", runs: int = 5) -> float:
    """Median seconds of a unit of work.

    Args:
        work: Runs once; its first run counts only if `runs` is 1.
        units: Units of work in one run.
        device: As for `measure`.
        runs: At most; 0.4 s of work are enough.
    """
    first = measure(work, device, runs=1).seconds
    if runs == 1:
        return first / units
    found: list[float] = []
    while len(found) < runs and (not found or sum(found) < _ENOUGH_S):
        found.append(measure(work, device, runs=1).seconds)
    return max(statistics.median(found), 1e-9) / units


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often two pieces of work are timed against each other.

    Attributes:
        least: Rounds in any case; the scatter is known from two on.
        most: Rounds at most.
        scatter: Rounds end once the standard error is below this share of the ratio.
        seconds: After which no round begins, once there were `least`.
    """

    least: int = 3
    most: int = 9
    scatter: float = 0.01
    seconds: float = 8.0

    @classmethod
    def exactly(cls, rounds: int) -> Effort:
        """A number of rounds that does not depend on the scatter."""
        return cls(least=rounds, most=rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Time of one piece of work over that of another.

    Attributes:
        value: Median of the ratios of all rounds.
        scatter: Standard error of that median; None after a single round.
        rounds: How often both were timed.
    """

    value: float
    scatter: float | None
    rounds: int

    @classmethod
    def of(cls, found: list[float]) -> Ratio:
        """The ratio of some rounds."""
        return cls(value=statistics.median(found), scatter=_scatter(found), rounds=len(found))


def compare(work: Work, other: Work, device: str, effort: Effort) -> Ratio:
    """Time of `work` over that of `other`; the caller warms both up.

    Both run in each round, each first in turn, so that other load slows both.
    """
    found: list[float] = []
    end = time.perf_counter() + effort.seconds
    while len(found) < effort.least or (
        len(found) < effort.most and not _is_settled(found, effort) and time.perf_counter() < end
    ):
        found.append(_round(work, other, device, is_first=len(found) % 2 == 0))
    return Ratio.of(found)


def _round(work: Work, other: Work, device: str, *, is_first: bool) -> float:
    order = (work, other) if is_first else (other, work)
    seconds = [measure(one, device, runs=1).seconds for one in order]
    numerator, denominator = seconds if is_first else reversed(seconds)
    return numerator / max(denominator, 1e-9)


def _is_settled(found: list[float], effort: Effort) -> bool:
    scatter = _scatter(found)
    return scatter is not None and scatter < effort.scatter * statistics.median(found)


def _scatter(found: list[float]) -> float | None:
    """Standard error of a median: that of the mean, times 1.25."""
    if len(found) < 2:
        return None
    return float(1.25 * statistics.stdev(found) / len(found) ** 0.5)
