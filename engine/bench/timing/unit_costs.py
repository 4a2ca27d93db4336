"""Seconds that a unit of work costs: of the processor's threads together, or of a card."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from engine.bench.timing.peak_rates import clocked

Costs = dict[str, float]
_ENOUGH_S = 0.4  # of work; slower work is done once, after a run that does not count


def cost_of(
    work: Callable[[], object], units: float, *, device: str = "cpu", runs: int = 5
) -> float:
    """Median seconds of a unit: CPU seconds of all threads, or device seconds.

    Args:
        work: Done once before it counts, where that is cheap.
        units: That it does in one go.
        device: Kind of the torch device.
        runs: At most; fewer when that takes long.
    """
    first = clocked(work, device, runs=1, warm_ups=0).seconds
    if runs == 1:
        return first / units
    found: list[float] = []
    while len(found) < runs and (not found or sum(found) < _ENOUGH_S):
        found.append(clocked(work, device, runs=1, warm_ups=0).seconds)
    return max(statistics.median(found), 1e-9) / units
