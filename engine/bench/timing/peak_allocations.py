"""The most memory that a piece of work takes, to the byte, in the process that does it."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Any

import torch

from engine.bench.timing.peak_rates import clocked

_TAKEN = "[memory]"  # what torch calls a change of its memory
_SILENCE = ("KINETO_LOG_LEVEL", "99")  # torch's profiler writes a line at every start else


def peak_bytes(work: Callable[[], object], device: str) -> int:
    """Bytes at the peak of one run, above those before it; the result is part of it.

    torch's own record: every tensor and buffer of its operators, at the sizes that were asked for.
    What libraries take for themselves is not seen. Buffers that stay are seen in the first run of
    a model only.

    Args:
        work: Runs once.
        device: "cpu" or "cuda".
    """
    return _on_card(work) if device == "cuda" else _on_processor(work)


def _on_processor(work: Callable[[], object]) -> int:
    os.environ.setdefault(*_SILENCE)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        result = work()
    del result
    profiler: Any = profile.profiler  # None before it ran, as its types say
    events = [event for event in profiler.kineto_results.events() if event.name() == _TAKEN]
    live = highest = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        highest = max(highest, live)
    return highest


def _on_card(work: Callable[[], object]) -> int:
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    clocked(work, "cuda", runs=1, warm_ups=0)
    return torch.cuda.max_memory_allocated() - before
