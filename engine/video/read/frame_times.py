"""Time stamps of the frames of a film, also where a file has none or wrong ones."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

# Seconds that a clock goes back at least where another part of a recording begins; what goes back
# by less is a wrong time stamp.
JUMP_S = Fraction(1, 2)
_WRAP_BITS = 33  # of the clock of a broadcast: FFmpeg counts on where it starts again from 0
_LEAST_S = Fraction(1, 1000)  # between frames whose stamps do not rise: MKV has no smaller unit
_LEAP_S = 10  # that a time stamp of a broadcast leaps ahead at least, if it is wrong
BROADCAST = frozenset({"mpegts", "mpeg"})  # containers whose packets state times in full


class StampCheck:
    """Finds time stamps of a broadcast that a bit error made leap ahead.

    A leap counts when the next stamp confirms it: then nothing was sent for a while. Subtitles are
    not checked, they leap.
    """

    def __init__(self, container: str) -> None:
        self.is_broadcast = container in BROADCAST
        self._leapt = Fraction(0)

    def is_wrong(self, time: int, last: int | None, base: Fraction) -> bool:
        """Whether a stamp cannot be meant.

        Args:
            time: In the time base.
            last: The stamp before it; None at the beginning.
            base: Time base, s.
        """
        if not self.is_broadcast or last is None or (time - last) * base < _LEAP_S:
            return False
        before, self._leapt = self._leapt, time * base
        return not 0 <= self._leapt - before <= JUMP_S


class FrameTimes:
    """Time stamps of decoded frames, also where a file has none.

    A frame keeps the stamp of its packet. Where the container has only decoding times (AVI), those
    are taken, which are right after reordering. Streams without any times (raw H.264) get exact
    ones from the frame rate. Stamps always rise: one that does not is moved to 1 ms
    after the frame before it, and a clock that jumps back goes on from there.
    """

    def __init__(self, stream: Any, check: StampCheck | None = None) -> None:
        self._base = Fraction(stream.time_base or Fraction(1, 1000))
        self._rate = Fraction(stream.guessed_rate or stream.average_rate or 25)
        self._frame_units = max(1, round(1 / self._rate / self._base))  # of a frame, nominal
        self._least_units = math.ceil(_LEAST_S / self._base)
        self._origin: int | None = None
        self._untimed = 0  # frames without a stamp since the origin
        self._last: int | None = None
        self._shift = 0
        self._check = check
        self._lap: int | None = None
        self.jumps = 0  # how often the clock jumped back
        self.wraps = 0  # how often a broadcast's clock reached its end

    def pts_of(self, frame: Any) -> int:
        """The stamp of the next frame in decoding order, in the stream's time base."""
        pts = frame.pts if frame.pts is not None else frame.dts
        if pts is None or self._is_wrong(pts):
            pts = self._from_rate()
        else:
            self._count_laps(pts)
            pts += self._shift
            if self._last is not None and (self._last - pts) * self._base > JUMP_S:
                self._shift += self._last + self._frame_units - pts
                pts = self._last + self._frame_units
                self.jumps += 1
            self._origin, self._untimed = pts, 0
        if self._last is not None and pts <= self._last:
            pts = self._last + self._least_units
        self._last = int(pts)
        return self._last

    def _is_wrong(self, pts: int) -> bool:
        check = self._check
        return check is not None and check.is_wrong(pts + self._shift, self._last, self._base)

    def _count_laps(self, pts: int) -> None:
        if self._check is not None and self._check.is_broadcast:
            lap = pts >> _WRAP_BITS
            self.wraps += self._lap is not None and lap > self._lap
            self._lap = lap

    def _from_rate(self) -> int:
        if self._origin is None:
            self._origin = 0
            return 0
        self._untimed += 1
        return self._origin + round(self._untimed / self._rate / self._base)
