"""Bytes that torch takes on the processor while each stage of a job works."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")
_MARK = "stage: "


def marked(stage: str, work: Callable[..., Result]) -> Callable[..., Result]:
    """The same call, told apart by `StageMemory` as part of a stage."""

    def call(*args: Any, **options: Any) -> Result:
        with torch.profiler.record_function(_MARK + stage):
            return work(*args, **options)

    return call


class StageMemory:
    """The most memory that tensors had inside, in all and while calls were `marked`.

    As `Allocations`; what the calling thread takes and gives back is seen, no other thread.

    Attributes:
        peak_bytes: Highest sum of what was taken inside and not yet released.
        left_bytes: What is still there at the end.
        stages: The highest sum while calls of each stage ran, and that of all other moments
            under "".
    """

    def __init__(self) -> None:
        self.peak_bytes = self.left_bytes = 0
        self.stages: dict[str, int] = {}
        self._profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        )

    def __enter__(self) -> StageMemory:
        self._profile.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._profile.__exit__(kind, error, traceback)
        profiler: Any = self._profile.profiler  # None before it ran, as its types say
        events = profiler.kineto_results.events()
        changes = sorted(
            (event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"
        )
        calls = sorted(
            (event.start_ns(), event.start_ns() + event.duration_ns(), event.name())
            for event in events
            if event.name().startswith(_MARK)
        )
        starts, live = [call[0] for call in calls], 0
        for at, change in changes:
            live += change
            stage = _stage_at(at, starts, calls)
            self.stages[stage] = max(self.stages.get(stage, 0), live)
        self.left_bytes = live
        self.peak_bytes = max(self.stages.values(), default=0)


def _stage_at(at: int, starts: list[int], calls: list[tuple[int, int, str]]) -> str:
    """Of the last call that began by then, if it had not ended; marked calls do not nest."""
    index = bisect_left(starts, at + 1) - 1
    return calls[index][2].removeprefix(_MARK) if index >= 0 and at <= calls[index][1] else ""
