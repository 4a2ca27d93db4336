"""Comparison of sound that was decoded on the way: sample by sample, and in time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.messages import Message, message
from engine.video.read.sound import ROUNDED_S

_LATE_S = 0.010  # that the result is behind the source at least, where silence fills a gap
_SEARCH_S = 1.0  # around its time, where the beginning of a part is looked for
_HEAD = 256  # samples by which it is recognised
_FLOAT_ERROR = 2**-16  # of full scale: decoders of floats differ a little between CPUs

Samples = NDArray[Any]
TimedSamples = Iterator[tuple[float, Samples]]


@dataclass(slots=True, kw_only=True)
class SoundMatch:
    """Differences of two sound tracks."""

    fault: Message | None = None
    offsets: list[float] = field(default_factory=list)  # s that frames of the result are late


def compare_sound(
    source: TimedSamples, result: TimedSamples, rate: int, part_s: float | None, edge_s: float
) -> SoundMatch:
    """Compare decoded samples; silence may fill what the times of the source leave out.

    Args:
        source: Samples and times of the track, s after the first picture.
        result: Samples and times of the result.
        rate: Samples a second.
        part_s: Length of the part that the job took, s; infinite up to the end, None for all.
        edge_s: Around the ends of a part, where a frame may be on either side, s.

    Memory: a second of the source's samples, and a number for each of its frames.
    """
    found, made = SoundMatch(), _Reader(result, rate)
    frames = source if part_s is None else _from_beginning(source, made, edge_s)
    if frames is None:
        return SoundMatch(fault=message("check.stream-content.part-differs"))
    end = math.inf if part_s is None else part_s - edge_s
    following: float | None = None
    for time, samples in frames:
        if following is not None and abs(time - following) < ROUNDED_S:
            at = following  # rounded: the sound goes on
        else:
            if following is not None and time - made.time > _LATE_S:
                made.skip_silence(round((time - following) * rate), samples)
            at = time
        there = made.time
        taken = made.take(len(samples))
        if not len(taken) and time >= end:
            break
        if not _is_equal(samples, taken):
            found.fault = _fault(samples, taken, time, rate)
            return found
        found.offsets.append(min(there - time, there - at, key=abs))
        following = at + len(samples) / rate
    if made.has_more():
        found.fault = message("check.stream-content.samples-surplus", time=f"{made.time:.3f}")
    return found


def _fault(samples: Samples, taken: Samples, time: float, rate: int) -> Message:
    same = min(len(samples), len(taken))
    is_short = not same or _is_equal(samples[:same], taken[:same])
    where = same
    if not is_short and samples.shape[1:] == taken.shape[1:]:
        where = int(np.flatnonzero((samples[:same] != taken[:same]).any(axis=1))[0])
    code = "samples-missing" if is_short else "samples-differ"
    return message(f"check.stream-content.{code}", time=f"{time + where / rate:.3f}")


def _is_equal(one: Samples, other: Samples) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind == "f":
        return np.allclose(one, other, rtol=0, atol=_FLOAT_ERROR, equal_nan=True)
    return np.array_equal(one, other)


def _from_beginning(source: TimedSamples, made: _Reader, edge_s: float) -> TimedSamples | None:
    """The source's frames from that on with which the result begins; None where there is none.

    Of equal ones, as silence has, the nearest in time.
    """
    if not made.has_more():
        return (frame for frame in source if frame[0] >= edge_s)
    before, waiting = 0, list[tuple[float, Samples]]()
    for time, samples in source:
        if time >= made.time - _SEARCH_S:
            waiting.append((time, samples))
        else:
            before += 1
        if time > made.time + _SEARCH_S:
            break
    head = made.peek(_HEAD)
    near = sorted(range(len(waiting)), key=lambda number: abs(waiting[number][0] - made.time))
    for number in near:
        time, samples = waiting[number]
        if _begins_with(head, samples):
            is_late = time > edge_s and before + number
            return None if is_late else chain(waiting[number:], source)
    return None


def _begins_with(samples: Samples, frame: Samples) -> bool:
    count = min(len(samples), len(frame))
    return _is_equal(samples[:count], frame[:count])


class _Reader:
    """Takes samples from a track in any number, and knows their time."""

    def __init__(self, frames: TimedSamples, rate: int) -> None:
        self._frames = frames
        self._rate = rate
        self._held: Samples | None = None
        self._time = 0.0
        self._fill()

    @property
    def time(self) -> float:
        """Time of the next sample, s."""
        return self._time

    def has_more(self) -> bool:
        """Whether there is another sample."""
        return self._held is not None

    def peek(self, count: int) -> Samples:
        """The next samples; fewer at the end."""
        time, taken = self._time, self.take(count)
        if len(taken):
            rest = [] if self._held is None else [self._held]
            self._held, self._time = np.concatenate([taken, *rest]), time
        return taken

    def take(self, count: int) -> Samples:
        """The next samples; fewer at the end."""
        taken: list[Samples] = []
        while count and self._held is not None:
            part, rest = self._held[:count], self._held[count:]
            taken.append(part)
            count -= len(part)
            self._held, self._time = rest, self._time + len(part) / self._rate
            if not len(rest):
                self._fill()
        return np.concatenate(taken) if taken else np.empty((0, 1))

    def skip_silence(self, count: int, following: Samples) -> None:
        """Pass over silence, a sample more or less, up to the samples that follow."""
        left = count - 1
        while left > 0:
            part = self.take(min(left, self._rate))
            if not len(part) or part.any():
                return
            left -= len(part)
        near = self.peek(2 + _HEAD)
        for more in (1, 0, 2):
            if not near[:more].any() and _begins_with(near[more:], following):
                self.take(more)
                return

    def _fill(self) -> None:
        self._held = None
        for time, samples in self._frames:
            if len(samples):
                self._held, self._time = samples, time
                return
