"""Cancel token and pause gate, which stages check between units of work."""

from __future__ import annotations

import threading
import time

from engine.core.errors import Cancelled


class Control:
    """Cancels or pauses another thread between two units of work."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._running = threading.Event()
        self._running.set()
        self._paused_at = 0.0
        self._paused_s = 0.0

    @property
    def paused_seconds(self) -> float:
        """Seconds spent paused so far, finished pauses only."""
        return self._paused_s

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
            self._paused_at = time.monotonic()
            self._running.clear()

    def resume(self) -> None:
        """Resume the work."""
        if self.is_paused:
            self._paused_s += time.monotonic() - self._paused_at
        self._running.set()

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
