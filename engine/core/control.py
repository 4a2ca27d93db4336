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
        self._lock = threading.Lock()  # of the following
        self._waited = 0.0  # s, in pauses that are over
        self._waits_since: float | None = None  # None until the first thread waits in a pause
        self.resumed = 0  # pauses that are over

    def work_seconds(self) -> float:
        """A clock of the work, s: it stands still while the machine sleeps, and in pauses.

        A pause counts from when a thread waits: what was under way when it came is work still.
        """
        with self._lock:
            now = awake_seconds() if self._waits_since is None else self._waits_since
            return now - self._waited

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
        if not self._cancelled.is_set():
            self._running.clear()

    def resume(self) -> None:
        """Resume the work."""
        with self._lock:
            if self._waits_since is not None:
                self._waited += awake_seconds() - self._waits_since
                self._waits_since = None
            self.resumed += self.is_paused
            self._running.set()

    def resumes_within(self, seconds: float | None) -> bool:
        """Wait for the end of a pause; False if it lasts longer. True at once where it runs."""
        with self._lock:
            if self.is_paused and self._waits_since is None:
                self._waits_since = awake_seconds()
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
        self.resumes_within(None)
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
