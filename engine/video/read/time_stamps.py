"""Exact time stamps of decoded frames, also where a file gives none."""

from __future__ import annotations

from fractions import Fraction
from typing import Any


class Timeline:
    """Gives each frame its pts, in the order in which a decoder puts them out.

    A frame keeps the stamp of its packet; where the container states only decoding times (AVI)
    that one is taken, which is right after reordering. Streams without any times (raw H.264) get
    exact ones from the frame rate. Stamps always rise: one that does not is moved right behind
    the frame before it, and a clock that jumps back goes on from there.
    """

    def __init__(self, stream: Any) -> None:
        self._base = Fraction(stream.time_base or Fraction(1, 1000))
        self._rate = Fraction(stream.guessed_rate or stream.average_rate or 25)
        self._origin: int | None = None
        self._without = 0
        self._last: int | None = None
        self._shift = 0
        self.jumps = 0  # how often the clock jumped back

    def pts_of(self, frame: Any) -> int:
        """The stamp of the next frame, in the stream's time base."""
        pts = frame.pts if frame.pts is not None else frame.dts
        if pts is None:
            pts = self._made_up()
        else:
            pts += self._shift
            if self._last is not None and pts < self._last - self._jump:
                self._shift += self._last + self.frame_units - pts
                pts = self._last + self.frame_units
                self.jumps += 1
            self._origin, self._without = pts, 0
        if self._last is not None and pts <= self._last:
            pts = self._last + 1
        self._last = int(pts)
        return self._last

    def _made_up(self) -> int:
        if self._origin is None:
            self._origin = 0
            return 0
        self._without += 1
        return self._origin + round(self._without / self._rate / self._base)

    @property
    def _jump(self) -> int:
        return int(1 / self._base)  # one second

    @property
    def frame_units(self) -> int:
        """Length of one frame at the nominal rate, in units of the time base."""
        return max(1, round(1 / self._rate / self._base))
