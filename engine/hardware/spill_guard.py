"""Detects that Windows moves GPU memory to main memory, which makes work many times slower.

Windows refuses nothing: what does not fit is paged silently. Two signs: memory that the process
shares with the GPU grows beyond what it pinned itself, and tiles take longer than before. Not seen
on a GPU yet; the decision itself is tested with made-up readings.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from statistics import median

SURE_BYTES = 384 * 2**20  # certain: only spilling explains them
LIKELY_BYTES = 64 * 2**20  # likely: spilling, if work is slow as well
_SLOWER = 3.0  # times as long as earlier work of the same kind
_SLOWER_THAN_PREDICTED = 6.0  # predictions are less certain
_KEPT, _ENOUGH = 15, 4  # pieces of work that the usual time is taken from, and the fewest
_PERIOD_S = 0.2  # between readings of the system's counter: some milliseconds each


class Spilled(Exception):
    """GPU memory was moved to main memory; ends the running attempt inside the engine.

    Attributes:
        spilled_bytes: Number of spilled bytes.
    """

    def __init__(self, spilled_bytes: int) -> None:
        super().__init__(f"{spilled_bytes} bytes of GPU memory are in RAM")
        self.spilled_bytes = spilled_bytes


class SpillGuard:
    """Checks after every piece of work of the device's thread whether the GPU spills.

    Args:
        shared: Bytes that this process shares with GPUs; None where unknown.
        pinned: Bytes of them that the process pinned itself.
        clock: s, standing still while the job is paused.
        expected: Predicted seconds of a piece of work by its kind, for the first ones.
    """

    def __init__(
        self,
        shared: Callable[[], int | None],
        pinned: Callable[[], int] = lambda: 0,
        *,
        clock: Callable[[], float] = time.monotonic,
        expected: Mapping[str, float] | None = None,
    ) -> None:
        self._shared, self._pinned, self._clock = shared, pinned, clock
        self._expected = dict(expected or {})
        self.begin()

    def begin(self) -> None:
        """Start an attempt, with nothing on the GPU: measurements of earlier ones are dropped."""
        self._before = self._ours()
        self._times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self._last: tuple[str, float] | None = None
        self._read_at = -_PERIOD_S

    def check(self, kind: str) -> None:
        """Record the end of a piece of work, or the start of the first one.

        Args:
            kind: Kind of the work: only the same kind is compared; "" is not compared.

        Raises:
            Spilled: The GPU spills.
        """
        now = self._clock()
        seconds = self._took(kind, now)
        is_slow = seconds is not None and self._is_slow(kind, seconds)
        if seconds is not None and not is_slow:
            self._times[kind].append(seconds)
        if now - self._read_at < _PERIOD_S and not is_slow:
            return
        self._read_at = now
        grown = self._grown()
        if grown >= SURE_BYTES or (is_slow and grown >= LIKELY_BYTES):
            raise Spilled(grown)
        if is_slow and seconds is not None:
            self._times[kind].append(seconds)  # slow for another reason

    def _took(self, kind: str, now: float) -> float | None:
        last, self._last = self._last, (kind, now)
        return now - last[1] if kind and last is not None and last[0] == kind else None

    def _is_slow(self, kind: str, seconds: float) -> bool:
        known = self._times[kind]
        if len(known) >= _ENOUGH:
            return seconds > _SLOWER * median(known)
        predicted = self._expected.get(kind)
        return predicted is not None and seconds > _SLOWER_THAN_PREDICTED * predicted

    def _grown(self) -> int:
        now = self._ours()
        if now is None or self._before is None:
            return 0
        self._before = min(self._before, now)
        return now - self._before

    def _ours(self) -> int | None:
        """Shared bytes without those that the process pinned itself."""
        shared = self._shared()
        return None if shared is None else max(0, shared - self._pinned())
