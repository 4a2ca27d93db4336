"""Bytes become news: four a second, with the speed of the last five seconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

_TELL_EVERY_S = 0.25
_SPEED_OVER_S = 5.0
_MB = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How far something is; MB are 10**6 bytes."""

    done_mb: float = 0.0
    total_mb: float = 0.0  # 0 while unknown
    mb_per_second: float = 0.0
    seconds_left: float = 0.0  # 0 while unknown


class Meter:
    """A `Tell` that says amounts, not too often."""

    def __init__(self, say: Callable[[Amount], None]) -> None:
        self._say = say
        self._due = 0.0
        self._seen: deque[tuple[float, int]] = deque()

    def __call__(self, done: int, total: int) -> None:
        """So many bytes of so many are done."""
        now = time.monotonic()
        if now < self._due and done != total:
            return
        self._due = now + _TELL_EVERY_S
        speed = self._speed(now, done)
        self._say(
            Amount(
                done_mb=done / _MB,
                total_mb=total / _MB,
                mb_per_second=speed / _MB,
                seconds_left=(total - done) / speed if speed and total else 0.0,
            )
        )

    def _speed(self, now: float, done: int) -> float:
        """Bytes a second; 0 until it can be said."""
        if self._seen and done < self._seen[-1][1]:
            self._seen.clear()  # it began anew
        self._seen.append((now, done))
        while now - self._seen[0][0] > _SPEED_OVER_S and len(self._seen) > 2:
            self._seen.popleft()
        since, before = self._seen[0]
        return (done - before) / (now - since) if now > since else 0.0
