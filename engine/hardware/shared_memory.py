r"""What Windows keeps of a card's memory in main memory, and which program holds how much.

A card that is full does not refuse on Windows: what does not fit is moved to "shared GPU memory",
which is main memory, and everything becomes many times slower. NVML does not see it; Windows'
performance counters do. Main memory that we have pinned for the card is counted as shared too.
Not seen on a card yet.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from engine.hardware import pdh

logger = logging.getLogger(__name__)

_PATHS = (
    r"\GPU Process Memory(*)\Dedicated Usage",
    r"\GPU Process Memory(*)\Shared Usage",
    r"\GPU Adapter Memory(*)\Dedicated Usage",
    r"\GPU Adapter Memory(*)\Shared Usage",
)
_INSTANCE = re.compile(r"(?:pid_(\d+)_)?(luid_0x[0-9a-f]+_0x[0-9a-f]+)", re.IGNORECASE)
_FRESH_S = 0.2  # readings cost some milliseconds: those who ask sooner get the last one


@dataclass(frozen=True, slots=True)
class Use:
    """Bytes on a card, and of it in main memory."""

    dedicated: int = 0
    shared: int = 0

    def __add__(self, other: Use) -> Use:
        """Both together."""
        return Use(self.dedicated + other.dedicated, self.shared + other.shared)


@dataclass(frozen=True, slots=True)
class Adapter:
    """One card, or the graphics of a processor, at one moment."""

    all: Use = field(default_factory=Use)
    processes: dict[int, Use] = field(default_factory=dict)  # by process id


class Reader:
    """Asks the counters at most a few times a second; from any thread.

    Args:
        counters: For the paths of this module.
        clock: Seconds.
    """

    def __init__(self, counters: pdh.Counters, clock: Callable[[], float] = time.monotonic) -> None:
        self._counters = counters
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._last: dict[str, Adapter] = {}

    def adapters(self) -> dict[str, Adapter]:
        """By Windows' name of the adapter, as "luid_0x00000000_0x0000d1b2"; {} when silent."""
        with self._lock:
            if self._clock() - self._read_at >= _FRESH_S:
                try:
                    self._last = _adapters(self._counters.read())
                except OSError as err:
                    logger.debug("no reading of the cards' counters: %s", err)
                    self._last = {}
                self._read_at = self._clock()
            return self._last


def ours() -> int | None:
    """Bytes of this process in shared GPU memory of the card it computes on.

    0 as long as it computes on none. Pinned main memory is part of it: look at how it grows.

    Returns:
        None off Windows, and where Windows does not count.
    """
    reader = _reader()
    if reader is None:
        return None
    luid = _luid()
    if luid is None:
        return 0
    found = _pick(reader.adapters(), luid, 0)
    return None if found is None else found.processes.get(os.getpid(), Use()).shared


def card(used_bytes: int) -> Adapter | None:
    """The card as Windows sees it, every program's part of it too.

    Args:
        used_bytes: Of the card by NVML: tells it from other adapters before we compute on it.

    Returns:
        None off Windows, and where Windows does not count.
    """
    reader = _reader()
    return None if reader is None else _pick(reader.adapters(), _luid() or "", used_bytes)


def _pick(adapters: dict[str, Adapter], luid: str, used_bytes: int) -> Adapter | None:
    if luid:
        return adapters.get(luid)
    return min(
        adapters.values(),
        key=lambda found: abs(found.all.dedicated - used_bytes),
        default=None,
    )


def _adapters(read: list[dict[str, int]]) -> dict[str, Adapter]:
    found: dict[str, Adapter] = {}
    dedicated, shared = read[0] | read[2], read[1] | read[3]  # processes and adapters
    for name in dedicated.keys() | shared.keys():
        match = _INSTANCE.match(name)
        if match is None:
            continue
        use = Use(dedicated.get(name, 0), shared.get(name, 0))
        adapter = found.get(luid := match[2].lower(), Adapter())
        if match[1] is None:
            adapter = Adapter(adapter.all + use, adapter.processes)
        else:
            adapter.processes[int(match[1])] = adapter.processes.get(int(match[1]), Use()) + use
        found[luid] = adapter
    return found


_lock = threading.Lock()
_opened: list[Reader | None] = []


def _reader() -> Reader | None:
    """The one query of the program; None off Windows and where counters are broken."""
    with _lock:
        if not _opened:
            _opened.append(_open(pdh.library()))
        return _opened[0]


def _open(library: Any) -> Reader | None:
    if library is None:
        return None
    try:
        return Reader(pdh.Counters(library, _PATHS))
    except OSError as err:
        logger.info("Windows does not count the cards' memory: %s", err)
        return None


def luid_text(luid: bytes) -> str:
    """Windows' name of an adapter from the 8 bytes of its LUID."""
    low, high = int.from_bytes(luid[:4], "little"), int.from_bytes(luid[4:8], "little")
    return f"luid_0x{high:08x}_0x{low:08x}"


if sys.platform == "win32":

    def _luid() -> str | None:
        """The card that CUDA calls its first; "" where it does not tell, None without CUDA yet."""
        kernel = ctypes.WinDLL("kernel32")
        kernel.GetModuleHandleW.argtypes = [ctypes.c_wchar_p]
        kernel.GetModuleHandleW.restype = ctypes.c_void_p
        if not kernel.GetModuleHandleW("nvcuda.dll"):
            return None
        luid, nodes = ctypes.create_string_buffer(8), ctypes.c_uint()
        status = ctypes.WinDLL("nvcuda.dll").cuDeviceGetLuid(luid, ctypes.byref(nodes), 0)
        not_initialised = 3
        if status == not_initialised:
            return None
        return "" if status else luid_text(luid.raw)

else:

    def _luid() -> str | None:
        """The card that CUDA calls its first; "" where it does not tell, None without CUDA yet."""
        return None
