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
    """Bytes on one card; `ours` is None where the driver does not tell processes apart."""

    total: int
    used: int
    ours: int | None


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


def memory(handle: Any, process_ids: frozenset[int]) -> CardMemory | None:
    """Memory of a card, and the part of the processes named; None where NVML is silent.

    On Windows the usual driver model (WDDM) reports no bytes per process: `ours` is None then.
    """
    answer = ask("nvmlDeviceGetMemoryInfo", handle)
    if answer is None:
        return None
    return CardMemory(
        total=int(answer.total), used=int(answer.used), ours=_ours(handle, process_ids)
    )


def _ours(handle: Any, process_ids: frozenset[int]) -> int | None:
    processes: dict[int, int | None] = {}
    for function in (
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetGraphicsRunningProcesses",
    ):
        for process in ask(function, handle) or ():
            processes[process.pid] = process.usedGpuMemory
    ours = [amount for pid, amount in processes.items() if pid in process_ids]
    known = [amount for amount in ours if amount is not None]
    return None if len(known) < len(ours) else sum(known)
