"""FFmpeg's filters on frames one after the other: a chain, and the matching of fields of film."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Protocol, cast

import av
import numpy as np
from av import VideoFrame
from av.filter import Graph

from engine.core.geometry import Size
from engine.video.colour.planes import frame_of, layout_of, planes_of
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
