"""Comparison of sound that was decoded on the way: its samples, or what codecs keep of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from av import AudioFrame, AudioLayout, AudioResampler
from numpy.typing import NDArray

from engine.core.messages import Message, message
from engine.video.read.sound import ROUNDED_S

_LATE_S = 0.010  # that the result is behind the source at least, where silence fills a gap
_SEARCH_S = 1.0  # around its time, where the beginning of a part is looked for
_HEAD = 256  # samples by which it is recognised
_FLOAT_ERROR = 2**-16  # of full scale: decoders of floats differ a little between CPUs

_RATE = 8000  # samples/s in which sound that was encoded again is compared
_WINDOW = _RATE // 2  # samples that are compared at once
_MOMENT = _RATE // 100  # samples that no encoder turns into silence where the source is loud
_LOUD = 1e-2  # of full scale
_GONE = 1e-2  # energy over that of the source, of a moment that is missing
_QUIET = 1e-3  # of full scale: what is below may be left out by an encoder
_MOST_OFF = 0.5  # energy of the difference over that of the source; 0.5 is a ratio of 3 dB

Samples = NDArray[Any]
TimedSamples = Iterator[tuple[float, Samples]]


@dataclass(frozen=True, slots=True)
class Track:
    """Decoded samples of a track with their times, s after the first picture."""

    frames: TimedSamples
    rate: int  # samples/s
    layout: str  # FFmpeg's name of the channels


@dataclass(slots=True, kw_only=True)
class SoundMatch:
    """Differences of two sound tracks."""

    fault: Message | None = None
    offsets: list[float] = field(default_factory=list)  # s that frames of the result are late


def compare_sound(source: Track, result: Track, part_s: float | None, edge_s: float) -> SoundMatch:
    """Compare decoded samples; silence may fill what the times of the source leave out.

    Args:
        source: Track of the source.
        result: Track of the result, with as many samples a second.
        part_s: Length of the part that the job took, s; infinite up to the end, None for all.
        edge_s: Around the ends of a part, where a frame may be on either side, s.

    Memory: a second of the source's samples, and a number for each of its frames.
    """
    found, rate, made = SoundMatch(), source.rate, _Reader(result.frames, source.rate)
    frames = source.frames if part_s is None else _from_beginning(source, made, edge_s)
    if frames is None:
        return SoundMatch(fault=message("check.stream-content.part-differs"))
    end = math.inf if part_s is None else part_s - edge_s
    following: float | None = None
    if is_silent := part_s is not None:  # so far
        made.hold_back()
    for time, samples in frames:
        is_next = following is not None and abs(time - following) < ROUNDED_S
        if is_silent and samples.any():
            is_silent = False
            if is_next or following is None:
                silent = int(np.flatnonzero(samples.any(axis=1))[0])
                made.skip_silence(silent + made.off, samples[silent:])
                time, samples = time + silent / rate, samples[silent:]
                following = following + silent / rate if following is not None else None
            else:
                made.take(made.off)
        if following is not None and is_next:
            at = following  # rounded: the sound goes on
        else:
            if following is not None and time - made.time > _LATE_S:
                made.skip_silence(round((time - following) * rate), samples)
            at = time
        there = made.time
        taken = made.take(len(samples))
        if not made.has_more() and time + len(taken) / rate >= end:
            samples = samples[: len(taken)]
        if not len(samples):
            break
        if not _is_equal(samples, taken):
            found.fault = _fault(samples, taken, time, rate)
            return found
        if not is_silent:
            found.offsets.append(min(there - time, there - at, key=abs))
        following = at + len(samples) / rate
    if is_silent:
        made.take(made.off)
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
    return bool(_near(one, other).all())


def _near(one: Samples, other: Samples) -> NDArray[np.bool_]:
    """Whether each sample is equal, except for what decoders of floats differ by."""
    if one.dtype.kind == "f":
        return np.isclose(one, other, rtol=0, atol=_FLOAT_ERROR, equal_nan=True)
    return np.asarray(one == other)


def _from_beginning(source: Track, made: _Reader, edge_s: float) -> TimedSamples | None:
    """The source's frames from the sample on with which the result begins; None without one.

    Of equal places, as silence has, the nearest in time.
    """
    if not made.has_more():
        return (frame for frame in source.frames if frame[0] >= edge_s)
    begin, waiting, is_first = made.time, list[tuple[float, Samples]](), True
    for time, samples in source.frames:
        if time + len(samples) / source.rate < begin - _SEARCH_S:
            is_first = False
            continue
        waiting.append((time, samples))
        if time > begin + _SEARCH_S:
            break
    if not waiting:
        return None
    joined = np.concatenate([samples for _, samples in waiting])
    times = np.concatenate([time + np.arange(len(part)) / source.rate for time, part in waiting])
    head = made.peek(_HEAD)
    places = np.flatnonzero(_near(joined[:, 0], head[0, 0]))
    for place in places[np.argsort(np.abs(times[places] - begin), kind="stable")]:
        if _begins_with(head, joined[place:]):
            if times[place] > edge_s and not (is_first and place == 0):
                return None
            return chain(_after(waiting, int(place), source.rate), source.frames)
    return None


def _after(frames: list[tuple[float, Samples]], count: int, rate: int) -> TimedSamples:
    """Frames without their first samples."""
    for time, samples in frames:
        left_out = min(count, len(samples))
        count -= left_out
        if left_out < len(samples):
            yield time + left_out / rate, samples[left_out:]


def _begins_with(samples: Samples, frame: Samples) -> bool:
    count = min(len(samples), len(frame))
    return _is_equal(samples[:count], frame[:count])


class _Reader:
    """Takes samples from a track in any number, and knows their time."""

    def __init__(self, frames: TimedSamples, rate: int) -> None:
        self._frames = frames
        self._rate = rate
        self.off = 1 + rate // 1000  # samples; MKV rounds times to a millisecond
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
        """Pass over silence, a millisecond more or less, up to the samples that follow."""
        off, left = self.off, count - self.off
        while left > 0:
            part = self.take(min(left, self._rate))
            if not len(part) or part.any():
                return
            left -= len(part)
        near = self.peek(2 * off + _HEAD)
        for more in sorted(range(2 * off + 1), key=lambda count: abs(count - off)):
            if not near[:more].any() and _begins_with(near[more:], following):
                self.take(more)
                return

    def hold_back(self) -> None:
        """Put a millisecond of silence before the next sample.

        A part that begins with silence may begin anywhere in it, as far as times are rounded. Its
        first sound is then not before that of the source, and `skip_silence` finds it.
        """
        if self._held is not None:
            silence = np.zeros((self.off, *self._held.shape[1:]), self._held.dtype)
            self._held = np.concatenate([silence, self._held])
            self._time -= self.off / self._rate

    def _fill(self) -> None:
        self._held = None
        for time, samples in self._frames:
            if len(samples):
                self._held, self._time = samples, time
                return


# --- sound that was encoded again


def compare_encoded(
    source: Track, result: Track, part_s: float | None, edge_s: float
) -> SoundMatch:
    """Compare sound that was encoded again, in windows of half a second up to 4 kHz.

    Codecs keep low frequencies well: a window in which the difference has more than half of the
    energy of the source holds something else, is late, or is missing. Channels without a place in
    the result's codec are brought to those that it has.

    Args:
        source: Track of the source.
        result: Track of the result.
        part_s: Length of the part that the job took, s; infinite up to the end, None for all.
        edge_s: Around the ends of a part, where a frame may be on either side, s.

    Memory: two windows, and what is decoded at once.
    """
    found, layout = SoundMatch(), result.layout
    old, new = (_Windows(_brought_to(track, layout)) for track in (source, result))
    first, last = (0.0, math.inf) if part_s is None else (edge_s, part_s - edge_s)
    number, lag = min(old.first, new.first) if part_s is None else 0, 0
    while old.has_more() or new.has_more():
        begin, end = number * _WINDOW / _RATE, (number + 1) * _WINDOW / _RATE
        wanted, made = old.window(number), new.window(number)
        number += 1
        if begin < first or end > last:
            if end > last:
                break
            continue
        if not _is_alike(*_moved(wanted, made, lag)):
            lag = _lag(wanted, made)
            if not _is_alike(*_moved(wanted, made, lag)):
                found.fault = message("check.stream-content.sound-differs", time=f"{begin:.1f}")
                break
        if float(np.square(wanted).mean()) > _QUIET**2:
            found.offsets.append(lag / _RATE)
    is_over = part_s is None and not new.has_more()
    if is_over and old.end - new.end > _LATE_S * _RATE - lag:
        time = f"{new.end / _RATE:.3f}"
        found.fault = message("check.stream-content.samples-missing", time=time)
    return found


def _is_alike(wanted: Samples, made: Samples) -> bool:
    """Whether every channel of a window is about that of the source, without gaps."""
    off, whole = (np.square(part).sum(axis=0) for part in (made - wanted, wanted))
    if (off > _MOST_OFF * whole + 4 * _QUIET**2 * len(wanted)).any():
        return False
    moments = len(wanted) // _MOMENT
    old, new = (
        np.square(part[: moments * _MOMENT].reshape(moments, _MOMENT, -1)).mean(axis=1)
        for part in (wanted, made)
    )
    return not ((old > _LOUD**2) & (new < _GONE * old)).any()


def _lag(wanted: Samples, made: Samples) -> int:
    """Samples by which a window is late, by its correlation with that of the source."""
    size = 2 * _WINDOW
    spectra = (np.fft.rfft(part.sum(axis=1), size) for part in (wanted, made))
    one, other = spectra
    peak = int(np.argmax(np.fft.irfft(other * np.conj(one), size)))
    return peak if peak < _WINDOW else peak - size


def _moved(wanted: Samples, made: Samples, lag: int) -> tuple[Samples, Samples]:
    """The parts of two windows that belong together where one is late."""
    length = _WINDOW - abs(lag)
    old, new = max(0, -lag), max(0, lag)
    return wanted[old : old + length], made[new : new + length]


def _brought_to(track: Track, layout: str) -> Iterator[tuple[int, Samples]]:
    """Samples float32 [n, channels] of 8 kHz, and the number of the first since the picture's.

    Without the channel of low frequencies, of which AAC keeps the lowest only.
    """
    names = [channel.name for channel in AudioLayout(layout).channels]
    full = [number for number, name in enumerate(names) if name != "LFE"]
    for at, samples in _resampled_runs(track, layout):
        yield at, samples[:, full]


def _resampled_runs(track: Track, layout: str) -> Iterator[tuple[int, Samples]]:
    resampler: AudioResampler | None = None
    following = at = 0
    for time, samples in track.frames:
        begin = round(time * track.rate)
        if resampler is None or abs(begin - following) >= ROUNDED_S * track.rate:
            for part in _resampled(resampler, None):
                yield at, part
                at += len(part)
            resampler, following = AudioResampler("flt", layout, _RATE), begin
            at = round(time * _RATE)
        following += len(samples)
        for part in _resampled(resampler, _frame_of(samples, track)):
            yield at, part
            at += len(part)
    for part in _resampled(resampler, None):
        yield at, part
        at += len(part)


def _frame_of(samples: Samples, track: Track) -> AudioFrame:
    full = -np.iinfo(samples.dtype).min if samples.dtype.kind == "i" else 1
    floats = (samples / np.float32(full)).astype(np.float32).reshape(1, -1)
    frame = AudioFrame.from_ndarray(floats, "flt", track.layout)
    frame.sample_rate = track.rate
    return frame


def _resampled(resampler: AudioResampler | None, frame: AudioFrame | None) -> Iterator[Samples]:
    if resampler is not None:
        for part in resampler.resample(frame):
            yield part.to_ndarray().reshape(-1, part.layout.nb_channels)


class _Windows:
    """Cuts samples into windows of one length, with silence where there are none."""

    def __init__(self, parts: Iterator[tuple[int, Samples]]) -> None:
        self._parts = parts
        self._held: list[tuple[int, Samples]] = []
        self._channels = 1
        self.end = 0  # of what was read so far, samples
        self._fill()
        self.first = self._held[0][0] // _WINDOW if self._held else 0

    def has_more(self) -> bool:
        """Whether any samples are left."""
        return bool(self._held)

    def window(self, number: int) -> Samples:
        """Samples of a window [_WINDOW, channels]; windows are asked for in their order."""
        begin, end = number * _WINDOW, (number + 1) * _WINDOW
        while self._held and self._held[-1][0] + len(self._held[-1][1]) < end and self._fill():
            pass
        found = np.zeros((_WINDOW, self._channels), np.float32)
        for at, samples in self._held:
            start, stop = max(at, begin), min(at + len(samples), end)
            if start < stop:
                found[start - begin : stop - begin] = samples[start - at : stop - at]
        self._held = [one for one in self._held if one[0] + len(one[1]) > end]
        if not self._held:
            self._fill()
        return found

    def _fill(self) -> bool:
        for at, samples in self._parts:
            if len(samples):
                self._held.append((at, samples))
                self._channels, self.end = samples.shape[1], at + len(samples)
                return True
        return False
