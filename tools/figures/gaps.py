"""Longest pause of the event loop of the window, measured by a 10 ms timer."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PySide6.QtCore import QTimer

_TICK_MS = 10
_MS = 1000.0


@dataclass
class Gaps:
    """Largest time between two ticks, in ms, with and without waiting for a free CPU.

    Other programs let this thread wait; holding the interpreter's lock is our doing.
    """

    whole: float = 0.0
    own: float = 0.0

    def begin(self) -> None:
        """Start to measure."""
        self._last, self._waited = time.perf_counter(), _waited_s()

    def tick(self) -> None:
        """One tick of the timer."""
        now, waited = time.perf_counter(), _waited_s()
        gap = now - self._last
        self.whole = max(self.whole, _MS * gap)
        self.own = max(self.own, _MS * (gap - (waited - self._waited)))
        self._last, self._waited = now, waited


def ticking_timer() -> QTimer:
    """A timer to be connected and started."""
    from PySide6.QtCore import Qt, QTimer

    timer = QTimer()
    timer.setTimerType(Qt.TimerType.PreciseTimer)
    timer.setInterval(_TICK_MS)
    return timer


def _waited_s() -> float:
    """Seconds that this thread has waited for a CPU so far; 0 where it is unknown."""
    try:
        text = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text("ascii")
    except OSError:
        return 0.0
    return int(text.split()[1]) / 1e9
