"""One NVML session for the program; without an NVIDIA driver there are simply no cards.

NVML speaks of all processes and costs microseconds; it needs neither CUDA nor torch.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pynvml

_lock = threading.Lock()
_session: list[Any] | None = None
_why_not = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardMemory:
    """Bytes on one card."""

    total: int
    used: int


def handles() -> tuple[Any, ...]:
    """NVML's handles of all cards, in its order; () without a card or driver."""
    global _session, _why_not
    with _lock:
        if _session is None:
            try:
                pynvml.nvmlInit()
                count = pynvml.nvmlDeviceGetCount()
                _session = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
            except pynvml.NVMLError as err:
                _session, _why_not = [], str(err)
        return tuple(_session)


def state() -> tuple[bool, str]:
    """True when a driver answers; else False and NVML's own words why it does not."""
    handles()
    return (not _why_not, _why_not)


def ask(function: str, *arguments: Any) -> Any:
    """NVML's answer, or None where this card or driver has none."""
    try:
        return getattr(pynvml, function)(*arguments)
    except pynvml.NVMLError:
        return None


def text(answer: Any) -> str:
    """A name of NVML as text: older bindings give bytes; "" for None."""
    return answer.decode() if isinstance(answer, bytes) else answer or ""


def memory(handle: Any) -> CardMemory | None:
    """Memory of a card; None where NVML is silent."""
    answer = ask("nvmlDeviceGetMemoryInfo", handle)
    return answer and CardMemory(total=int(answer.total), used=int(answer.used))


def processes(handle: Any) -> dict[int, int | None]:
    """Bytes of a card by process id, each once.

    None where the driver does not tell, as on Windows under its usual driver model (WDDM).
    """
    found: dict[int, int | None] = {}
    for function in (
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetGraphicsRunningProcesses",
    ):
        for process in ask(function, handle) or ():
            found[process.pid] = process.usedGpuMemory
    return found
