"""Bytes that torch takes on the processor, to the byte: every allocation and every release."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch


class Allocations:
    """The most memory that tensors had while inside, above what they had at the beginning.

    torch's own record: it knows sizes as they were asked for, and everything that operators take
    through torch's allocator and give back. Libraries that allocate for themselves are not seen
    (oneDNN's copies of weights). What was taken before and is released inside does not count.

    Attributes:
        peak_bytes: Highest sum of what was taken inside and not yet released.
        left_bytes: What is still there at the end.
        taken: Sizes of all allocations, in order.
        largest: Sizes of the largest ones, for messages.
    """

    def __init__(self) -> None:
        self.peak_bytes = self.left_bytes = 0
        self.taken: list[int] = []
        self.largest: list[int] = []
        self._profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        )

    def __enter__(self) -> Allocations:
        self._profile.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._profile.__exit__(kind, error, traceback)
        changes = _changes(self._profile)
        live = 0
        for change in changes:
            live += change
            self.peak_bytes = max(self.peak_bytes, live)
        self.left_bytes = live
        self.taken = [change for change in changes if change > 0]
        self.largest = sorted(changes)[-8:]


def _changes(profile: torch.profiler.profile) -> list[int]:
    """Bytes taken (positive) and released (negative), in order."""
    profiler: Any = profile.profiler  # None before it ran, as its types say
    events = [event for event in profiler.kineto_results.events() if event.name() == "[memory]"]
    return [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
