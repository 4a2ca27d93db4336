"""torch's profiler: peak of the tensors of a piece of work, and a trace of its operators."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from engine.bench.report.machine import write_file
from engine.bench.timing.clock import measure

_ALLOCATION = "[memory]"  # torch's name for a change of its memory
_QUIET = ("KINETO_LOG_LEVEL", "99")  # otherwise every start of the profiler prints a line
_TRACE_KEYS = ("schemaVersion", "displayTimeUnit", "deviceProperties", "traceEvents")


def peak_bytes(work: Callable[[], object], device: str) -> int:
    """Bytes of all tensors at the peak of one run, above those before it; with the result.

    Every tensor and buffer of torch's operators, at the size that was requested. Memory that
    libraries allocate themselves is not counted; buffers of a model count in its first run.

    Args:
        work: Runs once.
        device: "cpu" or "cuda".
    """
    return _peak_on_gpu(work) if device == "cuda" else _peak_on_cpu(work)


def _peak_on_cpu(work: Callable[[], object]) -> int:
    os.environ.setdefault(*_QUIET)
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profile:
        result = work()
    del result
    profiler: Any = profile.profiler  # None before it ran, by its types
    events = [event for event in profiler.kineto_results.events() if event.name() == _ALLOCATION]
    live = highest = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        highest = max(highest, live)
    return highest


def _peak_on_gpu(work: Callable[[], object]) -> int:
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    measure(work, "cuda", runs=1)
    return torch.cuda.max_memory_allocated() - before


@contextmanager
def traced(path: Path) -> Iterator[None]:
    """Write a trace of everything inside as Chrome JSON; without names of folders or users.

    Raises:
        OutputUnwritable: The file cannot be written; raised before anything runs.
    """
    write_file(path, "{}")
    os.environ.setdefault(*_QUIET)
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        yield
    profile.export_chrome_trace(str(path))
    trace = json.loads(path.read_text(encoding="utf-8"))
    write_file(path, json.dumps({name: trace[name] for name in _TRACE_KEYS if name in trace}))
