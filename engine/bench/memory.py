"""Peak memory of one piece of work: of tensors, and of main memory in a process of its own."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import psutil
import torch
from torch import Tensor
from torch._C import _autograd
from torch._C._profiler import ProfilerConfig, ProfilerState, RecordScope, _ExperimentalConfig
from torch.profiler import ProfilerActivity
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.bench.report import Row, write_file
from engine.bench.timing import measure
from engine.core.errors import InternalError
from engine.core.messages import message
from engine.hardware.telemetry import counted_peak_bytes

_PERIOD_S = 0.005
_MIB = 2**20
_ALLOCATION = "[memory]"  # torch's name for a change of its memory
_QUIET = ("KINETO_LOG_LEVEL", "99")  # otherwise every start of the profiler prints a line
_TRACE_KEYS = ("schemaVersion", "displayTimeUnit", "deviceProperties", "traceEvents")


class Run(Protocol):
    """A piece of work that is plain data, so that another process can do it."""

    @property
    def threads(self) -> int:
        """Threads of the CPU."""
        ...

    def ready(self) -> Callable[[], Tensor]:
        """The work itself, with a model of its own."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMemory:
    """Bytes of main memory."""

    loaded_bytes: int  # the process with its libraries and the model
    peak_bytes: int  # most during the work, above that; with the result
    result_bytes: int
    traffic_bytes: int  # read and written by all operators of torch during the work
    is_alone: bool  # measured in a process of its own


def memory_of(run: Run) -> ProcessMemory:
    """Main memory that the work of a run needs, with a model built for it.

    Measured in a new process. A packaged program cannot start one and measures in its own: memory
    that earlier work freed then hides some of the peak.
    """
    if getattr(sys, "frozen", False):
        return measure_here(run, is_alone=False)
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            return process.submit(measure_here, run, is_alone=True).result()
    except Exception as err:  # any error of the run is sent to the parent process
        raise InternalError("memory-process", reason=f"{type(err).__name__}: {err}") from err


def measure_here(run: Run, *, is_alone: bool) -> ProcessMemory:
    """Main memory of the work of a run, measured in this process."""
    torch.set_num_threads(run.threads)
    work = run.ready()
    with MemoryTraffic():  # torch loads modules the first time
        torch.zeros(1).add_(1)
    give_back_freed()
    with PeakMemory() as peak, MemoryTraffic() as traffic:
        result = work()
    return ProcessMemory(
        loaded_bytes=peak.before,
        peak_bytes=peak.above,
        result_bytes=result.nbytes,
        traffic_bytes=traffic.bytes,
        is_alone=is_alone,
    )


def main_memory_row(run: Run, *, with_result: bool = False) -> Row:
    """The main memory of a run in MiB, as figures of a row."""
    memory = memory_of(run)
    row: Row = {
        "loaded_mib": memory.loaded_bytes / _MIB,
        "peak_mib": memory.peak_bytes / _MIB,
        **({"result_mib": memory.result_bytes / _MIB} if with_result else {}),
        "traffic_mib": memory.traffic_bytes / _MIB,
    }
    return row if memory.is_alone else row | {"note": message("bench.memory-not-alone")}


def give_back_freed() -> None:
    """Give back to the system what was freed, which would be taken first; nothing off Linux."""
    gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


class PeakMemory:
    """The most main memory of the process while inside.

    Linux counts it itself after a reset; elsewhere, and where Linux refuses the reset, a thread
    samples it 200 times a second.

    Attributes:
        before: Bytes at the beginning.
        above: Bytes of the peak above that.
    """

    def __init__(self) -> None:
        self.before = self.above = 0
        self._process = psutil.Process()
        self._is_over = threading.Event()
        self._highest = 0
        self._is_counted = False
        self._thread = threading.Thread(target=self._sample, name="memory", daemon=True)

    def __enter__(self) -> PeakMemory:
        self._is_counted = _reset_peak()
        self.before = self._highest = self._process.memory_info().rss
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        peak = max(self._highest, counted_peak_bytes() if self._is_counted else 0)
        self.above = max(0, peak - self.before)

    def _sample(self) -> None:
        while not self._is_over.wait(_PERIOD_S):
            self._highest = max(self._highest, self._process.memory_info().rss)


def _reset_peak() -> bool:
    """Reset the peak that Linux counts; False where it is not counted."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return counted_peak_bytes() > 0


class MemoryTraffic(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    """Counts the bytes of all tensors that operators read and write; views cost nothing.

    CUDA kernels of this program are no operators of torch and are not counted.

    Attributes:
        bytes: So far.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view and "empty" not in func.name():
            leaves = tree_leaves((args, kwargs, result))
            self.bytes += sum(x.nbytes for x in leaves if isinstance(x, torch.Tensor))
        return result


class AllocationLog:
    """Log of what operators of this thread allocate and free of torch's memory on the CPU, inside.

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
    if device == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        measure(work, "cuda", runs=1)
        return torch.cuda.max_memory_allocated() - before
    with AllocationLog() as log:
        result = work()
    del result
    return max(accumulate((change for _, change in log.changes), initial=0))


def gpu_bytes(device: str) -> int:
    """Bytes of tensors on the GPU now; 0 on a CPU."""
    return torch.cuda.memory_allocated() if device == "cuda" else 0


def gpu_row(work: Callable[[], object], loaded: int) -> Row:
    """Memory of one run on the GPU, counted by torch: buffers that stay are part of the peak.

    Args:
        work: Runs once.
        loaded: Bytes on the GPU with the model, which the peak is above.
    """
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return {
        "peak_mib": (torch.cuda.max_memory_allocated() - loaded) / _MIB,
        "reserved_mib": torch.cuda.max_memory_reserved() / _MIB,
    }


@contextlib.contextmanager
def traced(path: Path) -> Iterator[None]:
    """Write a trace of everything inside as Chrome JSON; without names of folders or users.

    An unwritable file is refused before anything runs.
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
