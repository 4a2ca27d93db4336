"""Frames of a video to times and back, and both as text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from engine.protocol.media import MediaInfo

ROUNDED_S = Fraction(6, 10_000)  # s; some containers keep whole milliseconds only
_UNCOUNTED = Fraction(1000)  # steps/s where a video has no steady rate


@dataclass(frozen=True, slots=True, kw_only=True)
class FilmClock:
    """Length of a video in steps: frames where they can be counted, else milliseconds."""

    steps: int
    rate: Fraction  # steps/s
    counts_frames: bool

    @classmethod
    def of(cls, media: MediaInfo) -> FilmClock:
        """The clock of a file; stills have one step."""
        video = media.video
        if media.kind == "image":
            return cls(steps=1, rate=Fraction(1), counts_frames=True)
        rate = video.frame_rate or Fraction(0)
        if video.frame_count and not rate and video.duration:
            rate = video.frame_count / video.duration
        if rate > 0:
            count = video.frame_count or round((video.duration or 0) * rate)
            return cls(steps=max(1, count), rate=rate, counts_frames=True)
        steps = round((video.duration or 0) * _UNCOUNTED)
        return cls(steps=max(1, steps), rate=_UNCOUNTED, counts_frames=False)

    @property
    def seconds(self) -> float:
        """Length of the video."""
        return float(self.steps / self.rate)

    def step_at(self, seconds: float | Fraction) -> int:
        """The step that is shown at a time, inside the video."""
        step = int((Fraction(seconds) + ROUNDED_S) * self.rate)
        return min(max(step, 0), self.steps - 1)

    def first_step_from(self, seconds: float) -> int:
        """The first step that begins at a time or later; the number of steps after the end."""
        step = math.ceil((Fraction(seconds) - ROUNDED_S) * self.rate)
        return min(max(step, 0), self.steps)

    def seconds_of(self, step: int) -> float:
        """Time when a step begins, s."""
        return float(step / self.rate)

    def seconds_to_ask(self, step: int) -> float:
        """A time well inside a step: rounding it to a frame gives this one."""
        inside = Fraction(1, 4) if self.counts_frames and self.steps > 1 else Fraction(0)
        return float((step + inside) / self.rate)


def clock(seconds: float) -> str:
    """A moment in a video in hundredths: "00:00:50.21"."""
    hundredths = int(seconds * 100 + 1e-6)  # never shows a time that has not come yet
    minutes, hundredths = divmod(hundredths, 6000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{hundredths // 100:02d}.{hundredths % 100:02d}"
