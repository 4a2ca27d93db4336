"""Windows' performance counters of many instances, through `pdh.dll`; none elsewhere."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

_LARGE = 0x400  # PDH_FMT_LARGE: whole numbers of 64 bits
_MORE_DATA = 0x800007D2
_VALID = (0, 1)  # data, and data since the last time


class _Item(ctypes.Structure):
    """PDH_FMT_COUNTERVALUE_ITEM_W with its large value; the names lie behind the items."""

    _fields_ = (
        ("name", ctypes.c_wchar_p),
        ("status", ctypes.c_uint32),
        ("value", ctypes.c_int64),
    )


class Counters:
    r"""A query that is kept open; every counter has a name and a value for each instance.

    Args:
        library: `pdh.dll`.
        paths: In English, whatever Windows speaks, as r"\GPU Process Memory(*)\Shared Usage"; all
            instances there are at each reading are found.

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
        """Values of now by instance, for each path; instances of one name are added up.

        Raises:
            OSError: Windows does not answer.
        """
        self._call("PdhCollectQueryData", self._query)
        return [self._values(counter) for counter in self._counters]

    def close(self) -> None:
        """Give the query back; a second call does nothing."""
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
        items = ctypes.cast(buffer, ctypes.POINTER(_Item))
        found: Counter[str] = Counter()
        for item in items[: count.value]:
            if item.status in _VALID:
                found[item.name or ""] += item.value
        return dict(found)

    def _call(self, function: str, *arguments: Any) -> None:
        status = self._status(function, *arguments)
        if status:
            raise OSError(f"{function} says 0x{status:08X}")

    def _status(self, function: str, *arguments: Any) -> int:
        return int(getattr(self._library, function)(*arguments)) & 0xFFFFFFFF


if sys.platform == "win32":

    def library() -> Any:
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

    def library() -> Any:
        """`pdh.dll`; None where it does not load."""
        return None
