"""Output files and the segments of a video: errors of writing, syncing, packets in order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.error import FFmpegError
from av.video.stream import VideoStream

from engine.core import atomic_file
from engine.core.errors import OutputError
from engine.core.file_access import write_error
from engine.protocol.plan import PicturePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """A finished segment and the times of its frames, in units of PicturePlan.time_base."""

    path: Path
    pts: tuple[int, ...]
    durations: tuple[int, ...]  # 0 where unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPacket:
    """A packet ready to be written, its decoding time, and which frame of the video it is."""

    packet: Any  # av.Packet
    seconds: float
    frame: int = 0


class SegmentStream:
    """All segments of a job, one after the other.

    Encoders keep frames back, so packets come in decoding order. The decoding times are the
    presentation times moved by the largest delay: they rise, and are never after the frame's own
    time, however irregular the frames are.

    Args:
        segments: At least one, in order.
        picture: The plan of all segments.
        shift: Seconds to subtract from every time.
    """

    def __init__(
        self, segments: Sequence[SegmentFile], picture: PicturePlan, shift: Fraction
    ) -> None:
        self._segments = segments
        self._base = picture.time_base
        self._rate = picture.frame_rate
        moved = round(shift / self._base)
        self._pts = [pts - moved for segment in segments for pts in segment.pts]
        self._durations = [length for segment in segments for length in segment.durations]
        self._fill_durations()

    @property
    def bytes(self) -> int:
        """Size of all segments.

        Raises:
            OutputError: One is missing.
        """
        return sum(_size(segment) for segment in self._segments)

    @property
    def frames(self) -> int:
        """Number of frames of all segments."""
        return len(self._pts)

    @property
    def end(self) -> Fraction:
        """End of the last frame, in seconds after the shift."""
        return (self._pts[-1] + self._durations[-1]) * self._base

    @property
    def is_regular(self) -> bool:
        """Whether the frames follow each other at the nominal rate, except for rounding."""
        nominal = 1 / self._rate / self._base
        return all(abs(length - nominal) <= 1 for length in self._durations)

    def _fill_durations(self) -> None:
        nominal = max(1, round(1 / self._rate / self._base))
        last = len(self._pts) - 1
        for index, length in enumerate(self._durations):
            if length <= 0:
                following = self._pts[index + 1] - self._pts[index] if index < last else nominal
                self._durations[index] = following

    @contextmanager
    def template(self) -> Iterator[VideoStream]:
        """The stream of the first segment: codec, size and tags of all of them."""
        with _opened(self._segments[0].path) as stream:
            yield stream

    def packets(self) -> Iterator[tuple[TimedPacket, int]]:
        """Every packet in decoding order, with the bytes of finished segments before it.

        Raises:
            OutputError: A segment does not match its record.
        """
        delay = self._delay()
        step = self._pts[1] - self._pts[0] if len(self._pts) > 1 else self._durations[0]
        first = done = 0
        for segment in self._segments:
            count = 0
            with _opened(segment.path) as stream:
                for packet in stream.container.demux(stream):
                    if packet.pts is None:
                        continue  # the end of the file
                    shown = first + count - delay  # the frame whose time is the decoding time
                    early = self._pts[0] + step * shown
                    dts = self._pts[shown] if shown >= 0 else early
                    yield self._timed(packet, first + packet.pts, dts, segment), done
                    count += 1
            if count != len(segment.pts):
                raise _damaged(segment, count)
            first += count
            done += _size(segment)

    def _timed(self, packet: Any, index: int, dts: int, segment: SegmentFile) -> TimedPacket:
        if index >= len(self._pts) or dts > self._pts[index]:
            raise _damaged(segment, index)
        packet.time_base = self._base
        packet.pts, packet.dts = self._pts[index], dts
        packet.duration = self._durations[index]
        return TimedPacket(packet=packet, seconds=float(dts * self._base), frame=index)

    def _delay(self) -> int:
        """Frames that decoding order runs ahead: as found, and as the codec states."""
        with _opened(self._segments[0].path) as stream:
            stated = stream.codec_context.reorder_depth
            packets = stream.container.demux(stream)
            order = [packet.pts for packet in packets if packet.pts is not None]
        found = max((number - pts for number, pts in enumerate(order)), default=0)
        return max(found, int(stated or 0))


def _size(segment: SegmentFile) -> int:
    try:
        return segment.path.stat().st_size
    except OSError as err:
        raise _unreadable(segment.path) from err


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        file = av.open(f"file:{path}", format="matroska")
    except (FFmpegError, OSError) as err:
        raise _unreadable(path) from err
    try:
        yield file.streams.video[0]
    finally:
        file.close()


def _unreadable(path: Path) -> OutputError:
    return OutputError("segment-unreadable", name=path.name, path=path)


def _damaged(segment: SegmentFile, count: int) -> OutputError:
    return OutputError(
        "segment-frames",
        name=segment.path.name,
        expected=len(segment.pts),
        at=count,
        path=segment.path,
    )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns errors of FFmpeg and the system inside into errors about the file being written.

    Raises:
        EngineError: Error of `file_access.write_error`; OutputError for others of FFmpeg.
    """
    try:
        yield
    except (FFmpegError, OSError) as err:
        raise write_error(err, path) from err


def rename_durably(path: Path, name: Path) -> None:
    """Give a closed file its name in the same folder so that a power cut takes neither back."""
    make_durable(path)
    atomic_file.replace(path, name)
    if os.name == "posix":  # Windows keeps the folder itself safe
        folder = os.open(name.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def make_durable(path: Path) -> None:
    """Wait until a closed file is on the disk, so that a power cut cannot take it back."""
    handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
