r"""GPU memory that Windows keeps in main memory, and how much each program uses.

A full GPU does not refuse memory on Windows: what does not fit is moved to "shared GPU memory",
which is main memory, and everything becomes many times slower. NVML does not report it; Windows'
performance counters (`pdh.dll`) do. Main memory pinned for the GPU counts too. Unmeasured.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.hardware import devices

logger = logging.getLogger(__name__)

_PATHS = (
    r"\GPU Process Memory(*)\Dedicated Usage",
    r"\GPU Process Memory(*)\Shared Usage",
    r"\GPU Adapter Memory(*)\Dedicated Usage",
    r"\GPU Adapter Memory(*)\Shared Usage",
)
_INSTANCE = re.compile(r"(?:pid_(\d+)_)?(luid_0x[0-9a-f]+_0x[0-9a-f]+)", re.IGNORECASE)
_FRESH_S = 0.2  # a reading costs some milliseconds: until then callers get the last one


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes on a GPU, and bytes of GPU memory in main memory."""

    dedicated: int = 0
    shared: int = 0

    def __add__(self, other: MemoryUse) -> MemoryUse:
        """The sum of both."""
        return MemoryUse(self.dedicated + other.dedicated, self.shared + other.shared)


@dataclass(frozen=True, slots=True)
class Adapter:
    """One GPU, or the graphics of a CPU, at one time."""

    all: MemoryUse = field(default_factory=MemoryUse)
    processes: dict[int, MemoryUse] = field(default_factory=dict)  # by process id


class CounterReader:
    """Reads the counters at most a few times per second; from any thread.

    Args:
        counters: For the paths of this module.
        clock: Seconds.
    """

    def __init__(self, counters: Counters, clock: Callable[[], float] = time.monotonic) -> None:
        self._counters = counters
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._last: dict[str, Adapter] = {}

    def adapters(self) -> dict[str, Adapter]:
        """Adapters by Windows' name, as "luid_0x00000000_0x0000d1b2"; {} after an error."""
        with self._lock:
            if self._clock() - self._read_at >= _FRESH_S:
                try:
                    self._last = _adapters(self._counters.read())
                except OSError as err:
                    logger.debug("no reading of the GPU counters: %s", err)
                    self._last = {}
                self._read_at = self._clock()
            return self._last


def own_bytes() -> int | None:
    """Bytes of this process in shared GPU memory of the GPU it computes on.

    0 while it computes on none. Pinned main memory is included: only its growth is meaningful.

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
    return None if found is None else found.processes.get(os.getpid(), MemoryUse()).shared


def adapter(used_bytes: int) -> Adapter | None:
    """The GPU as Windows counts it, with the share of every program.

    Args:
        used_bytes: Used bytes by NVML: tell the GPU from other adapters before it is in use.

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
        use = MemoryUse(dedicated.get(name, 0), shared.get(name, 0))
        one = found.get(luid := match[2].lower(), Adapter())
        if match[1] is None:
            one = Adapter(one.all + use, one.processes)
        else:
            one.processes[int(match[1])] = one.processes.get(int(match[1]), MemoryUse()) + use
        found[luid] = one
    return found


_lock = threading.Lock()
_opened: list[CounterReader | None] = []


def _reader() -> CounterReader | None:
    """The one query of the program; None off Windows and where counters are broken."""
    with _lock:
        if not _opened:
            _opened.append(_open(_pdh()))
        return _opened[0]


def _open(library: Any) -> CounterReader | None:
    if library is None:
        return None
    try:
        return CounterReader(Counters(library, _PATHS))
    except OSError as err:
        logger.info("Windows does not count GPU memory: %s", err)
        return None


def luid_text(luid: bytes) -> str:
    """Windows' name of an adapter from the 8 bytes of its LUID."""
    low, high = int.from_bytes(luid[:4], "little"), int.from_bytes(luid[4:8], "little")
    return f"luid_0x{high:08x}_0x{low:08x}"


if sys.platform == "win32":

    def _luid() -> str | None:
        """The GPU in use, as CUDA knows it; "" where unknown, None before CUDA is used."""
        kernel = ctypes.WinDLL("kernel32")
        kernel.GetModuleHandleW.argtypes = [ctypes.c_wchar_p]
        kernel.GetModuleHandleW.restype = ctypes.c_void_p
        if not kernel.GetModuleHandleW("nvcuda.dll"):
            return None
        luid, nodes, gpu = ctypes.create_string_buffer(8), ctypes.c_uint(), devices.in_use()
        number = 0 if gpu is None else gpu.number
        status = ctypes.WinDLL("nvcuda.dll").cuDeviceGetLuid(luid, ctypes.byref(nodes), number)
        not_initialised = 3
        if status == not_initialised:
            return None
        return "" if status else luid_text(luid.raw)

else:

    def _luid() -> str | None:
        """The GPU in use, as CUDA knows it; "" where unknown, None before CUDA is used."""
        return None


# --- performance counters

_LARGE = 0x400  # PDH_FMT_LARGE: whole numbers of 64 bits
_MORE_DATA = 0x800007D2
_VALID = (0, 1)  # data, and data since the last time


class _CounterItem(ctypes.Structure):
    """PDH_FMT_COUNTERVALUE_ITEM_W with its large value; the names follow the items."""

    _fields_ = (
        ("name", ctypes.c_wchar_p),
        ("status", ctypes.c_uint32),
        ("value", ctypes.c_int64),
    )


class Counters:
    r"""An open query; every counter has a name and a value for each instance.

    Args:
        library: `pdh.dll`.
        paths: In English in any language of Windows, as r"\GPU Process Memory(*)\Shared Usage";
            each reading has all instances of its time.

    Raises:
        OSError: There is no such counter, or counters are broken on this machine.
    """

    def __init__(self, library: Any, paths: Sequence[str]) -> None:
        self._library = library
        self._query = ctypes.c_void_p()
        self._call("PdhOpenQueryW", None, None, ctypes.byref(self._query))
        try:
            self._counters = [self._added(path) for path in paths]
        except OSError:
            self.close()
            raise

    def read(self) -> list[dict[str, int]]:
        """Current values by instance, for each path; instances of one name are added up.

        Raises:
            OSError: Windows does not answer.
        """
        self._call("PdhCollectQueryData", self._query)
        return [self._values(counter) for counter in self._counters]

    def close(self) -> None:
        """Close the query; a second call does nothing."""
        query, self._query = self._query, ctypes.c_void_p()
        if query:
            with contextlib.suppress(OSError):
                self._call("PdhCloseQuery", query)

    def _added(self, path: str) -> ctypes.c_void_p:
        counter = ctypes.c_void_p()
        self._call("PdhAddEnglishCounterW", self._query, path, None, ctypes.byref(counter))
        return counter

    def _values(self, counter: ctypes.c_void_p) -> dict[str, int]:
        size, count = ctypes.c_uint32(0), ctypes.c_uint32(0)
        places = counter, _LARGE, ctypes.byref(size), ctypes.byref(count)
        if self._status("PdhGetFormattedCounterArrayW", *places, None) != _MORE_DATA:
            return {}  # no instances
        buffer = ctypes.create_string_buffer(size.value)
        self._call("PdhGetFormattedCounterArrayW", *places, buffer)
        items = ctypes.cast(buffer, ctypes.POINTER(_CounterItem))
        found: Counter[str] = Counter()
        for item in items[: count.value]:
            if item.status in _VALID:
                found[item.name or ""] += item.value
        return dict(found)

    def _call(self, function: str, *arguments: Any) -> None:
        status = self._status(function, *arguments)
        if status:
            raise OSError(f"{function} returned 0x{status:08X}")

    def _status(self, function: str, *arguments: Any) -> int:
        return int(getattr(self._library, function)(*arguments)) & 0xFFFFFFFF


if sys.platform == "win32":

    def _pdh() -> Any:
        """`pdh.dll`; None where it does not load."""
        try:
            found = ctypes.WinDLL("pdh.dll")
        except OSError:
            return None
        pointer, number = ctypes.c_void_p, ctypes.c_uint32
        found.PdhOpenQueryW.argtypes = [ctypes.c_wchar_p, pointer, pointer]
        found.PdhAddEnglishCounterW.argtypes = [pointer, ctypes.c_wchar_p, pointer, pointer]
        found.PdhCollectQueryData.argtypes = [pointer]
        found.PdhGetFormattedCounterArrayW.argtypes = [pointer, number, pointer, pointer, pointer]
        found.PdhCloseQuery.argtypes = [pointer]
        return found

else:

    def _pdh() -> Any:
        """`pdh.dll`; None where it does not load."""
        return None
