"""Keeps torch within a job's budget of the card, so that it refuses before Windows pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LEAST_SHARE = 0.01  # of a card; less is a mistake


@contextmanager
def within(budget_bytes: int) -> Iterator[None]:
    """Inside, torch takes at most so much of the first card; more is an OutOfMemoryError.

    Args:
        budget_bytes: Of the plan; 0 where a processor computes: nothing is limited.
    """
    if not budget_bytes or not torch.cuda.is_available():
        yield
        return
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(share_of(budget_bytes, total), 0)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, 0)


def share_of(budget_bytes: int, total_bytes: int) -> float:
    """The part of a card's memory that a budget is."""
    return max(_LEAST_SHARE, min(1.0, budget_bytes / total_bytes))
