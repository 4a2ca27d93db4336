"""Peak memory of one piece of work, in a process that does nothing else.

`python -m engine.bench.timing.process_memory` reads the name of a kind of run
and such a run as JSON and writes a Memory as JSON.
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
from types import TracebackType
from typing import Any, Protocol, Self

import psutil
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.core.errors import InternalError
from engine.core.serialization import from_plain, to_plain
from engine.hardware.process import NO_CONSOLE
from engine.hardware.telemetry import counted_peak_bytes

_PERIOD_S = 0.005


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
class Memory:
    """Bytes of main memory."""

    loaded_bytes: int  # with libraries and the model
    peak_bytes: int  # most during the work, above that; the result is part of it
    result_bytes: int
    traffic_bytes: int  # read and written by all operators of torch during the work
    is_alone: bool  # measured in a process of its own


def memory_of(run: Run) -> Memory:
    """Build the model of a run, work once, and look at the memory of the process.

    In a fresh process; a packed program cannot start one, and does it here: then memory that
    earlier work left behind hides some of the peak.

    Raises:
        InternalError: The other process failed.
    """
    if getattr(sys, "frozen", False):
        return measure_here(run, is_alone=False)
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "engine.bench.timing.process_memory"],
        input=json.dumps({"kind": _kind(run), "run": to_plain(run)}),
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": str(root), "PYTHONIOENCODING": "utf-8"},
        creationflags=NO_CONSOLE,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise InternalError("The process that measures memory failed.", hint=last)
    return from_plain(Memory, json.loads(done.stdout.splitlines()[-1]))


def measure_here(run: Run, *, is_alone: bool) -> Memory:
    """As `memory_of`, in this process."""
    torch.set_num_threads(run.threads)
    work = run.ready()
    with Traffic():  # torch loads a good deal the first time
        torch.zeros(1).add_(1)
    _tidy()
    with PeakMemory() as peak, Traffic() as traffic:
        result = work()
    return Memory(
        loaded_bytes=peak.before,
        peak_bytes=peak.above,
        result_bytes=result.nbytes,
        traffic_bytes=traffic.bytes,
        is_alone=is_alone,
    )


def _kind(run: Run) -> str:
    return f"{type(run).__module__}:{type(run).__qualname__}"


def _tidy() -> None:
    """Give back what building the model left over."""
    gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


class PeakMemory:
    """The most main memory that the process had while inside.

    Linux keeps count itself once it was told to begin anew; elsewhere, and where it refuses, a
    thread looks two hundred times a second.

    Attributes:
        before: Bytes at the beginning.
        above: Bytes of the peak above that.
    """

    def __init__(self) -> None:
        self.before = self.above = 0
        self._process = psutil.Process()
        self._over = threading.Event()
        self._highest = 0
        self._counts = False
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> PeakMemory:
        self._counts = _begin_anew()
        self.before = self._highest = self._process.memory_info().rss
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        peak = max(self._highest, counted_peak_bytes() if self._counts else 0)
        self.above = max(0, peak - self.before)

    def _watch(self) -> None:
        while not self._over.wait(_PERIOD_S):
            self._highest = max(self._highest, self._process.memory_info().rss)


def _begin_anew() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return counted_peak_bytes() > 0


class Traffic(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    """Counts the bytes of all tensors that operators read and write; views cost nothing.

    Our own kernels are not operators of torch and are not seen.

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
    """One run from standard input, its memory to standard output."""
    asked = json.load(sys.stdin)
    run: Run = pkgutil.resolve_name(asked["kind"]).read(asked["run"])
    sys.stdout.write(json.dumps(to_plain(measure_here(run, is_alone=True))) + "\n")


if __name__ == "__main__":
    main()
