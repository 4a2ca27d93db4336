"""Peak memory of one piece of work, in a process of its own.

`python -m engine.bench.timing.process_memory` reads the class and the fields of a run as JSON from
standard input and writes a ProcessMemory as JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import pkgutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import psutil
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.bench.report.machine import Row
from engine.core.errors import InternalError
from engine.core.messages import message
from engine.core.serialization import from_plain, to_plain
from engine.hardware.process import NO_CONSOLE
from engine.hardware.telemetry import counted_peak_bytes

_PERIOD_S = 0.005
_MIB = 2**20


class Run(Protocol):
    """A piece of work that is plain data, so that another process can do it."""

    @property
    def threads(self) -> int:
        """Of the processor."""
        ...

    def ready(self) -> Callable[[], Tensor]:
        """The work itself, with a model of its own."""
        ...

    @classmethod
    def read(cls, data: Any) -> Self:
        """A run that was written as plain data."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMemory:
    """Bytes of main memory."""

    loaded_bytes: int  # of the process with its libraries and the model
    peak_bytes: int  # most during the work, above that; with the result
    result_bytes: int
    traffic_bytes: int  # read and written by all operators of torch during the work
    is_alone: bool  # measured in a process of its own


def memory_of(run: Run) -> ProcessMemory:
    """Main memory that the work of a run needs, with a model built for it.

    Measured in a new process. A packaged program cannot start one and measures in its own: memory
    that earlier work freed then hides some of the peak.

    Raises:
        InternalError: The other process failed.
    """
    if getattr(sys, "frozen", False):
        return measure_here(run, is_alone=False)
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "engine.bench.timing.process_memory"],
        input=json.dumps(_described(run)),
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": str(root), "PYTHONIOENCODING": "utf-8"},
        creationflags=NO_CONSOLE,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise InternalError("memory-process", reason=last)
    return from_plain(ProcessMemory, json.loads(done.stdout.splitlines()[-1]))


def measure_here(run: Run, *, is_alone: bool) -> ProcessMemory:
    """The same in this process."""
    torch.set_num_threads(run.threads)
    work = run.ready()
    with MemoryTraffic():  # torch loads modules the first time
        torch.zeros(1).add_(1)
    _return_free_memory()
    with PeakMemory() as peak, MemoryTraffic() as traffic:
        result = work()
    return ProcessMemory(
        loaded_bytes=peak.before,
        peak_bytes=peak.above,
        result_bytes=result.nbytes,
        traffic_bytes=traffic.bytes,
        is_alone=is_alone,
    )


def _described(run: Run) -> dict[str, Any]:
    kind = type(run)
    return {"class": f"{kind.__module__}:{kind.__qualname__}", "run": to_plain(run)}


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


def _return_free_memory() -> None:
    """Return memory that building the model freed to the system."""
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


def main() -> None:
    """Measure the run that standard input describes."""
    request = json.load(sys.stdin)
    run: Run = pkgutil.resolve_name(request["class"]).read(request["run"])
    sys.stdout.write(json.dumps(to_plain(measure_here(run, is_alone=True))) + "\n")


if __name__ == "__main__":
    main()
