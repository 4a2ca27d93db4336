"""Blocks of a model that stay on a device when not all fit. Loads without torch."""

from __future__ import annotations


def resident_blocks(count: int, resident: int) -> frozenset[int]:
    """Which of `count` blocks stay: evenly spread among the streamed ones.

    Each copy then overlaps with as much computation as possible.
    """
    resident = min(count, resident)
    return frozenset((2 * index + 1) * count // (2 * resident) for index in range(resident))
