"""One NVML session for the program; without an NVIDIA driver there are no GPUs.

NVML covers all processes and costs microseconds; it needs neither CUDA nor torch.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pynvml

_lock = threading.Lock()
_session: list[Any] | None = None
_failure = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """Bytes on one GPU."""

    total: int
    used: int


def handles() -> tuple[Any, ...]:
    """NVML's handles of all GPUs, in its order; () without a GPU or driver."""
    global _session, _failure
    with _lock:
        if _session is None:
            try:
                pynvml.nvmlInit()
                count = pynvml.nvmlDeviceGetCount()
                _session = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
            except pynvml.NVMLError as err:
                _session, _failure = [], str(err)
        return tuple(_session)


def failure() -> str:
    """NVML's error message where no driver answers; "" where one does."""
    handles()
    return _failure


def query(function: str, *arguments: Any) -> Any:
    """The result of an NVML function, or None where this GPU or driver does not support it."""
    handles()  # begins the session
    try:
        return getattr(pynvml, function)(*arguments)
    except pynvml.NVMLError:
        return None


def text(answer: Any) -> str:
    """A name from NVML as text: older bindings return bytes; "" for None."""
    return answer.decode() if isinstance(answer, bytes) else answer or ""


def memory(handle: Any) -> GpuMemory | None:
    """Memory of a GPU; None where NVML does not report it."""
    answer = query("nvmlDeviceGetMemoryInfo", handle)
    return answer and GpuMemory(total=int(answer.total), used=int(answer.used))


def processes(handle: Any) -> dict[int, int | None]:
    """Bytes on a GPU by process id.

    None where the driver does not report them, as on Windows under its usual driver model (WDDM).
    """
    found: dict[int, int | None] = {}
    for function in (
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetGraphicsRunningProcesses",
    ):
        for process in query(function, handle) or ():
            found[process.pid] = process.usedGpuMemory
    return found
