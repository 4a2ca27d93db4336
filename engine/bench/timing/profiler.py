"""torch's profiler: peak of the tensors of a piece of work, and a trace of its operators."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch._C import _autograd
from torch._C._profiler import ProfilerConfig, ProfilerState, RecordScope, _ExperimentalConfig
from torch.profiler import ProfilerActivity

from engine.bench.report.machine import write_file
from engine.bench.timing.clock import measure

_ALLOCATION = "[memory]"  # torch's name for a change of its memory
_QUIET = ("KINETO_LOG_LEVEL", "99")  # otherwise every start of the profiler prints a line
_TRACE_KEYS = ("schemaVersion", "displayTimeUnit", "deviceProperties", "traceEvents")


class AllocationLog:
    """What operators of this thread allocate and free of torch's memory on the processor, inside.

    Memory that was allocated before is not in it when it is freed, nor what libraries allocate for
    themselves (packed weights of oneDNN). The operators themselves are not recorded.

    Attributes:
        changes: Time in ns and bytes, negative where they were freed, in order; set at the end.
        scopes: Begin and end in ns and name of each `torch.profiler.record_function`, in order;
            set at the end.
    """

    def __init__(self) -> None:
        self.changes: list[tuple[int, int]] = []
        self.scopes: list[tuple[int, int, str]] = []

    def __enter__(self) -> AllocationLog:
        os.environ.setdefault(*_QUIET)
        config = ProfilerConfig(
            ProfilerState.KINETO,
            report_input_shapes=False,
            profile_memory=True,
            with_stack=False,
            with_flops=False,
            with_modules=False,
            experimental_config=_ExperimentalConfig(),
        )
        _autograd._prepare_profiler(config, {ProfilerActivity.CPU})
        enable: Any = _autograd._enable_profiler  # its types lack the scopes
        enable(config, {ProfilerActivity.CPU}, {RecordScope.USER_SCOPE})
        return self

    def __exit__(self, *error: object) -> None:
        left: list[Any] = list(_autograd._disable_profiler().experimental_event_tree())
        memory = []
        while left:
            event = left.pop()
            left += event.children
            if event.name == _ALLOCATION:
                memory.append(event)
            else:
                self.scopes.append((event.start_time_ns, event.end_time_ns, event.name))
        self.scopes.sort()
        addresses = set()
        for event in sorted(memory, key=lambda event: event.start_time_ns):
            change, address = event.extra_fields.alloc_size, event.extra_fields.ptr
            if change > 0:
                addresses.add(address)
            elif address in addresses:
                addresses.remove(address)
            else:  # allocated inside an earlier log: torch still knows its size
                continue
            self.changes.append((event.start_time_ns, change))


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
    with AllocationLog() as log:
        result = work()
    del result
    return max(accumulate((change for _, change in log.changes), initial=0))


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
