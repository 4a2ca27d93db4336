"""Which letters a Windows console takes our bytes for."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from typing import Any

_UTF_8 = 65001


@contextlib.contextmanager
def utf8_console() -> Iterator[None]:
    """The console reads UTF-8 inside, as from a pipe through `more`; afterwards as before."""
    if sys.platform == "win32":
        with code_page(ctypes.windll.kernel32, _UTF_8):
            yield
    else:
        yield


@contextlib.contextmanager
def code_page(kernel: Any, wanted: int) -> Iterator[None]:
    """Another output code page inside; it belongs to the console and would outlive us.

    Args:
        kernel: `kernel32.dll`.
        wanted: Number of the code page; nothing happens where there is no console.
    """
    before = int(kernel.GetConsoleOutputCP())
    is_changed = before not in (0, wanted) and bool(kernel.SetConsoleOutputCP(wanted))
    try:
        yield
    finally:
        if is_changed:
            kernel.SetConsoleOutputCP(before)
