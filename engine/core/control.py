"""Cancel token and pause gate, which stages check between units of work."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from typing import Any

from engine.core.errors import Cancelled


class Control:
    """Cancels or pauses another thread between two units of work."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._running = threading.Event()
        self._running.set()
        self._pauses: tuple[float, float | None] = (0.0, None)  # s of those before, start of this

    @property
    def paused_seconds(self) -> float:
        """Seconds spent paused so far, finished pauses only."""
        return self._pauses[0]

    def work_seconds(self) -> float:
        """A clock of the work, s: it stands still in pauses and while the machine sleeps."""
        before, began = self._pauses
        return (awake_seconds() if began is None else began) - before

    @property
    def is_cancelled(self) -> bool:
        """True from the first call of `cancel` on."""
        return self._cancelled.is_set()

    @property
    def is_paused(self) -> bool:
        """True between `pause` and `resume`."""
        return not self._running.is_set()

    def cancel(self) -> None:
        """Cancel at the next check; also wakes a paused job so that it can end."""
        self._cancelled.set()
        self._running.set()

    def pause(self) -> None:
        """Pause at the next check."""
        if not self._cancelled.is_set() and self._running.is_set():
            self._pauses = (self.paused_seconds, awake_seconds())
            self._running.clear()

    def resume(self) -> None:
        """Resume the work."""
        before, began = self._pauses
        if began is not None:
            self._pauses = (before + awake_seconds() - began, None)
        self._running.set()

    def resumes_within(self, seconds: float) -> bool:
        """Wait for the end of a pause; False if it lasts longer. True at once where it runs."""
        return self._running.wait(seconds)

    def check_cancelled(self) -> None:
        """Check without waiting, for threads that have nothing to do while the others are paused.

        Raises:
            Cancelled: The job was cancelled.
        """
        if self._cancelled.is_set():
            raise Cancelled

    def check(self) -> None:
        """Wait while paused; call it between units of work.

        Raises:
            Cancelled: The job was cancelled, also while it was paused.
        """
        self._running.wait()
        if self._cancelled.is_set():
            raise Cancelled


def _unbiased_seconds(kernel: Any) -> float:
    """Windows' clock without sleep, by `kernel32.dll`; `time.monotonic` counts that there."""
    ticks = ctypes.c_ulonglong()  # of 100 ns
    kernel.QueryUnbiasedInterruptTime(ctypes.byref(ticks))
    return ticks.value / 1e7


def awake_seconds() -> float:
    """A clock that cannot be set, s: it stands still while the machine sleeps."""
    if sys.platform == "win32":
        return _unbiased_seconds(ctypes.windll.kernel32)
    return time.monotonic()
