"""Fields to whole frames by FFmpeg's filters: `bwdif`, and `fieldmatch` with the repeats left out.

Every decision depends on few neighbours, so that frames after a seek are those of a whole reading.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from engine.protocol.media import VideoInfo
from engine.video.planes import layout_of, planar_format, planes_of

if TYPE_CHECKING:
    from av import VideoFrame

from typing import Protocol, cast

import av
from av import VideoFrame
from av.filter import Graph

from engine.core.geometry import Size
from engine.video.planes import frame_of
from engine.video.read.frames import Plane

_NEIGHBOURS = (0, -1, 1)  # of a frame, in whose fields those of a whole picture are looked for


class FrameFilter(Protocol):
    """One frame out for each in, or one for each field, some frames later."""

    def frames(self, frame: VideoFrame | None) -> Iterator[VideoFrame]:
        """Take the next frame, or None after the last one; what is finished."""
        ...


class FilterChain:
    """Filters of FFmpeg, one after the other.

    Args:
        frame: The first one: all have its size and format.
        filters: Name and options of each.

    Raises:
        av.error.FFmpegError: A filter refuses the format or the size.
    """

    def __init__(self, frame: VideoFrame, filters: Sequence[tuple[str, str]]) -> None:
        self._graph = Graph()
        self._graph.threads = 1  # TRAP: in several threads swscale now and then loses a row
        self._count = 0
        last = self._graph.add_buffer(
            width=frame.width,
            height=frame.height,
            format=frame.format,
            time_base=Fraction(1),
        )
        for name, options in (*filters, ("buffersink", "")):
            added = self._graph.add(name, options)
            last.link_to(added)
            last = added
        self._graph.configure()

    def frames(self, frame: VideoFrame | None) -> Iterator[VideoFrame]:
        """Frames through a filter, like `FrameFilter`; times count frames.

        Raises:
            av.error.FFmpegError: The filters refuse the frame.
        """
        if frame is not None:
            frame.pts = self._count
            self._count += 1
        self._graph.push(frame)
        while True:
            try:
                yield cast("VideoFrame", self._graph.pull())
            except (av.error.BlockingIOError, av.error.EOFError):
                return


class FieldMatching:
    """Whole pictures of telecined frames, in which two fields of different pictures may be woven.

    FFmpeg's `fieldmatch` decides, on copies of 8 bits: it takes no more. TRAP: with `ppsrc` it
    does, and writes beyond its memory. The fields themselves are taken from the frames and keep
    every code value. What finds no field to match is combed, and deinterlaced by `bwdif`.

    Args:
        frame: The first one: all have its size and format.
        parity: "tff" or "bff".

    Memory: 7 frames.
    """

    def __init__(self, frame: VideoFrame, parity: str) -> None:
        self._size = Size(frame.width, frame.height)
        self._format = frame.format.name
        self._has_alpha = layout_of(self._format).has_alpha
        self._shift = max(0, layout_of(self._format).bit_depth - 8)
        self._even = np.full((-(-frame.height // 2), -(-frame.width // 2)), 128, np.uint8)
        matching = ("fieldmatch", f"order={parity}:combmatch=full")
        self._match = FilterChain(VideoFrame(frame.width, frame.height, "yuv420p"), (matching,))
        deinterlacing = ("bwdif", f"mode=send_frame:parity={parity}:deint=all")
        self._deinterlace = FilterChain(frame, (deinterlacing,))
        self._near: dict[int, tuple[tuple[Plane, ...], Plane]] = {}  # planes, and luma of 8 bits
        self._taken = self._made = 0
        self._waiting: deque[VideoFrame | None] = deque()  # woven; None: that of `bwdif` instead

    def frames(self, frame: VideoFrame | None) -> Iterator[VideoFrame]:
        """Frames of a filter, like `FrameFilter`."""
        for matched in self._match.frames(self._luma(frame) if frame is not None else None):
            woven = frame_of(self._woven(matched), self._size, self._format)
            self._waiting.append(None if matched.interlaced_frame else woven)
            yield from self._finished(woven)
        if frame is None:
            yield from self._finished(None)

    def _finished(self, woven: VideoFrame | None) -> Iterator[VideoFrame]:
        for deinterlaced in self._deinterlace.frames(woven):
            yield self._waiting.popleft() or deinterlaced

    def _luma(self, frame: VideoFrame) -> VideoFrame:
        """The next frame as `fieldmatch` gets it."""
        planes = planes_of(frame, alpha=self._has_alpha)
        luma = (planes[0] >> self._shift).astype(np.uint8)
        self._near[self._taken] = planes, luma
        self._taken += 1
        return frame_of((luma, self._even, self._even), self._size, "yuv420p")

    def _woven(self, matched: VideoFrame) -> tuple[Plane, ...]:
        """The picture that was decided on, in the frames' own depth."""
        luma = planes_of(matched, alpha=False)[0]
        number, self._made = self._made, self._made + 1
        top, bottom = (self._origin(number, luma, first) for first in (0, 1))
        self._near.pop(number - 1, None)
        woven = tuple(plane.copy() for plane in top)
        for plane, other in zip(woven, bottom, strict=True):
            plane[1::2] = other[1::2]
        return woven

    def _origin(self, number: int, luma: Plane, first: int) -> tuple[Plane, ...]:
        """Planes of the frame whose field was taken, of the lines from `first` on."""
        for step in _NEIGHBOURS:
            planes, own = self._near.get(number + step, ((), luma[:0]))
            if planes and np.array_equal(own[first::2], luma[first::2]):
                return planes
        return self._near[number][0]


_CYCLE = 5  # frames of telecine, one of which repeats another
LEAD_FRAMES = 4 * _CYCLE  # of the source, before a frame that is to be exact
_PARITY = {"tt": "tff", "bb": "bff"}
_BLOCK = 16  # px, of comparing frames: a repeat differs nowhere
_STILL = 2.0  # of 255: blocks that differ less show the same
_REPEAT = 0.5  # of the usual difference in a cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedFrame:
    """A frame of FFmpeg with its time and duration."""

    frame: VideoFrame
    pts: int
    duration: int  # 0 while unknown


class FieldFilter:
    """Frames of a video as `VideoInfo.deinterlacing` wants them.

    Attributes:
        left_out: Time stamps of frames of the source that repeat another one.

    Memory: 3 frames, of telecined film 13.
    """

    def __init__(self, video: VideoInfo) -> None:
        assert video.deinterlacing is not None
        self._how = video.deinterlacing
        self._filter: FrameFilter | None = None
        self._format = ""
        self._waiting: deque[tuple[int, int]] = deque()  # times of frames inside the filters
        self._has_first_field = False  # of the first of those
        self._cycle: list[TimedFrame] = []
        self._last: VideoFrame | None = None  # of the cycle before
        self._start = Fraction(video.start_pts, self._how.time_parts)
        self._frame_units = frame_units(video)
        self.left_out = array("q")

    def frames(self, frame: VideoFrame, pts: int, duration: int) -> Iterator[TimedFrame]:
        """Take the next frame of the source; what is finished, in the time base of the result.

        Args:
            frame: All have one size; its own times are not read.
            pts: In the time base of the source, rising.
            duration: Duration in that time base; 0 while unknown.

        Raises:
            av.error.FFmpegError: The filters refuse the format or the size.
        """
        if self._filter is None:
            is_planar = frame.format.name.startswith(("yuv", "gbr", "gray"))
            layout = layout_of(frame.format.name)
            self._format = frame.format.name if is_planar else planar_format(layout)
        frame = self._in_format(frame)
        if self._filter is None:
            self._filter = self._filter_for(frame)
        self._waiting.append((pts, duration))
        yield from self._finished(self._filter.frames(frame))

    def rest(self) -> Iterator[TimedFrame]:
        """The last frames."""
        if self._filter is not None:
            yield from self._finished(self._filter.frames(None))
            yield from self._end_of_cycle()

    def _filter_for(self, frame: VideoFrame) -> FrameFilter:
        parity = _PARITY[self._how.field_order]
        if self._how.rendering == "film":
            return FieldMatching(frame, parity)
        mode = "send_field" if self._how.rendering == "fields" else "send_frame"
        return FilterChain(frame, (("bwdif", f"mode={mode}:parity={parity}:deint=all"),))

    def _in_format(self, frame: VideoFrame) -> VideoFrame:
        if frame.format.name == self._format:
            return frame
        return frame.reformat(format=self._format, threads=1)

    def _finished(self, frames: Iterator[VideoFrame]) -> Iterator[TimedFrame]:
        for made in frames:
            made = self._in_format(made)
            if self._how.rendering == "fields":
                yield self._field(made)
                continue
            pts, duration = self._waiting.popleft()
            if self._how.rendering == "frames":
                yield TimedFrame(frame=made, pts=2 * pts, duration=2 * duration)
                continue
            cycle = self._cycle_of(pts)
            if self._cycle and self._cycle_of(self._cycle[0].pts) != cycle:
                yield from self._end_of_cycle()
            self._cycle.append(TimedFrame(frame=made, pts=pts, duration=duration))

    def _field(self, made: VideoFrame) -> TimedFrame:
        """A frame of one field: halfway to the next frame where it is the second one."""
        pts, duration = self._waiting[0]
        if not self._has_first_field:
            self._has_first_field = True
            return TimedFrame(frame=made, pts=2 * pts, duration=duration)
        self._has_first_field = False
        self._waiting.popleft()
        length = (
            self._waiting[0][0] - pts if self._waiting else duration or round(self._frame_units)
        )
        return TimedFrame(frame=made, pts=2 * pts + length, duration=duration)

    # --- film

    def _cycle_of(self, pts: int) -> int:
        """Number of the cycle: by the time alone, so that it is the same after a seek."""
        return round((pts - self._start) / self._frame_units) // _CYCLE

    def _end_of_cycle(self) -> Iterator[TimedFrame]:
        """The frames of a cycle, spread evenly over its time where a repeat is left out."""
        cycle, self._cycle = self._cycle, []
        repeat = self._repeat(cycle) if len(cycle) == _CYCLE else None
        kept = [one for number, one in enumerate(cycle) if number != repeat]
        if repeat is not None:
            self.left_out.append(cycle[repeat].pts)
        times = [4 * one.pts for one in cycle]
        if repeat is not None:  # 0, 5/4, 10/4 and 15/4 frames after the first
            times = [
                4 * one.pts + part * (after.pts - one.pts)
                for part, (one, after) in enumerate(pairwise(cycle))
            ]
        for one, pts in zip(kept, times, strict=True):
            length = 4 * one.duration if repeat is None else 5 * one.duration
            yield TimedFrame(frame=one.frame, pts=pts, duration=length)
        if cycle:
            self._last = cycle[-1].frame

    def _repeat(self, cycle: Sequence[TimedFrame]) -> int | None:
        """Which frame of a cycle repeats the one before; None where all differ."""
        frames = [self._last, *(one.frame for one in cycle)]
        found = [
            _difference(before, now) if before is not None and now is not None else math.inf
            for before, now in pairwise(frames)
        ]
        least = min(found)
        usual = sorted(found)[_CYCLE // 2]
        return found.index(least) if least <= max(_STILL, _REPEAT * usual) else None


def frame_units(video: VideoInfo) -> Fraction:
    """Nominal duration of a frame of the source, in its time base."""
    how = video.deinterlacing
    rate, base = video.frame_rate or Fraction(25), video.time_base
    if how is not None:
        rate, base = rate / how.frames_out, base * how.time_parts
    return 1 / rate / base


def _difference(one: VideoFrame, other: VideoFrame) -> float:
    """Mean difference in the block of luma that differs most, of 255."""
    a, b = (planes_of(frame, alpha=False)[0].astype(np.int32) for frame in (one, other))
    steps = np.abs(a - b)
    edges = [np.arange(0, max(1, side - _BLOCK + 1), _BLOCK) for side in steps.shape]
    sums = np.add.reduceat(
        np.add.reduceat(steps, edges[0], axis=0, dtype=np.int32), edges[1], axis=1
    )
    full = (1 << layout_of(one.format.name).bit_depth) - 1
    return float(sums.max()) / _BLOCK**2 * 255 / full
