"""Decoding of videos: frames with planes of one format and rising time stamps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
from av.stream import Discard
from av.video.stream import VideoStream

from engine.core.errors import ResultHeldBack, UnreadableMedia, memory_ran_out
from engine.core.file_access import reason_of
from engine.core.messages import Message, message
from engine.protocol.media import MediaInfo
from engine.video.colour.pixel_formats import layout_of, planar_format
from engine.video.colour.planes import planes_of
from engine.video.read import ffv1_crc
from engine.video.read.frames import PlanarFrame, Plane
from engine.video.read.media_file import (
    failure_of,
    open_input,
    packets_of,
    readable_packets,
    translated,
)

if TYPE_CHECKING:
    from av import Packet, VideoFrame
    from av.container import InputContainer

    VideoPacket = Packet[VideoStream]

_INEXACT = {"mpeg"}  # container with too few time stamps: after a seek they would be others
# WORKAROUND for FFmpeg 8.1: with several frames decoded at once, a damaged HEVC stream can make
# the threads wait for each other for ever.
_NO_FRAME_THREADS = {"hevc", "vvc"}
# Seconds that a clock goes back at least where another part of a recording begins; what goes back
# by less is a wrong time stamp.
JUMP_S = Fraction(1, 2)
_LEAP_S = 10  # that a time stamp of a broadcast leaps ahead at least, if it is wrong
BROADCAST = frozenset({"mpegts", "mpeg"})  # containers whose packets state times in full
LOSSLESS = {"ffv1", "png", "apng"}  # codecs whose checksums decoders can check
CHECKED = {"err_detect": "crccheck"}  # options for them
_MAX_SEEKS = 10  # towards the beginning before giving up


class FrameDecoder(ABC):
    """Frames of a source, all in the size, chroma and depth of its first one.

    Args:
        media: From `probe`.
        must_be_whole: Frames that cannot be read, though they should be there, are an error; else
            they are a problem. Frames that are damaged are a problem in any case.

    Attributes:
        problems: What differs from a sound file; complete when the frames are over.

    Memory: one frame.
    """

    def __init__(self, media: MediaInfo, *, must_be_whole: bool = False) -> None:
        self._media = media
        self._must_be_whole = must_be_whole
        self._layout = layout_of(media.video.pixel_format)
        self.problems: list[Message] = []

    @abstractmethod
    def frames(self) -> Iterator[PlanarFrame]:
        """All frames, in presentation order."""

    @abstractmethod
    def frames_before(self, pts: int) -> Iterator[PlanarFrame] | None:
        """Frames from somewhere before `pts` on, exact from `pts` on; None if it cannot seek."""

    def close(self) -> None:  # noqa: B027 - nothing to close where each file holds one frame
        """Close the file; the decoder may be used again."""

    def report(self, problem: Message) -> None:
        """Add a problem, once."""
        if problem not in self.problems:
            self.problems.append(problem)

    def _fall_short(self, error: ResultHeldBack, problem: Message) -> None:
        """Frames are missing that should be there."""
        if self._must_be_whole:
            raise error
        self.report(problem)

    def _planes(self, frame: VideoFrame) -> tuple[Plane, ...]:
        """Planes of a frame; a change of size or format within the file is converted."""
        video, own = self._media.video, layout_of(frame.format.name)
        if self._layout.is_float:
            self.report(message("reading.values-clipped"))
        changed: dict[str, Any] = {}
        if (frame.width, frame.height) != (video.size.width, video.size.height):
            size = f"{frame.width}x{frame.height}"
            self.report(message("reading.size-changes", size=size, original=video.size))
            changed = {"width": video.size.width, "height": video.size.height}
        elif (own.chroma, own.bit_depth) != (self._layout.chroma, self._layout.bit_depth):
            now, original = frame.format.name, video.pixel_format
            self.report(message("reading.format-changes", format=now, original=original))
        else:
            return planes_of(frame, alpha=video.has_alpha)
        frame = frame.reformat(**changed, format=planar_format(self._layout), threads=1)
        return planes_of(frame, alpha=video.has_alpha)


class VideoDecoder(FrameDecoder):
    """Decodes a video file; damaged frames are left out and counted.

    Memory: the frames that the decoder of FFmpeg holds back, and one.
    """

    def __init__(self, media: MediaInfo, threads: int, *, must_be_whole: bool = False) -> None:
        super().__init__(media, must_be_whole=must_be_whole)
        self._threads = threads
        self._stack = ExitStack()
        self._read = 0  # packets that are shown
        self._damaged = 0
        self._concealed = 0

    def close(self) -> None:
        """Close the file; the decoder may be used again."""
        self._stack.close()

    def frames(self) -> Iterator[PlanarFrame]:
        """All frames; at the end `problems` shows whether some are missing.

        Raises:
            ResultHeldBack: Some cannot be read, and the film must be whole.
        """
        container, stream = self._open()
        count = 0
        for frame in self._decoded(self._packets(container, stream), stream):
            count += 1
            yield frame
        self._report_damage()
        video = self._media.video
        if video.frame_count_is_exact and count < video.frame_count:
            problem = message("reading.ends-early", count=count, expected=video.frame_count)
            if self._read < video.frame_count:
                name = self._media.path.name
                about = {"name": name, "count": count, "expected": video.frame_count}
                self._fall_short(ResultHeldBack("frames-missing", **about), problem)
            self.report(problem)
        elif self._media.is_cut_short:
            self.report(message("reading.end-missing", count=count))

    def frames_before(self, pts: int) -> Iterator[PlanarFrame] | None:
        """Frames from a key frame on, at least one group of pictures before that of `pts`.

        Frames of an open group of pictures are shown before their key frame and refer to the group
        before: with that group decoded too, they are exact. None where the file cannot seek.
        """
        if self._media.container in _INEXACT:
            return None
        container, stream = self._open()
        with translated(self._media.path):
            if not _seek_before(container, stream, pts):
                return None
        return self._from_key(container, stream)

    def _from_key(self, container: InputContainer, stream: VideoStream) -> Iterator[PlanarFrame]:
        packets = _skip_to_key(self._packets(container, stream))
        yield from self._decoded(packets, stream)
        self._report_damage()

    def _open(self) -> tuple[InputContainer, VideoStream]:
        self.close()
        path, index = self._media.path, self._media.video.index
        container = self._stack.enter_context(open_input(path, must_be_whole=False))
        streams = container.streams
        stream = streams[index] if index < len(streams) else None
        if not isinstance(stream, VideoStream):
            raise UnreadableMedia("picture-gone", name=path.name, path=path)
        for other in streams:
            if other.index != index:
                other.discard = Discard.all
        stream.thread_type = "SLICE" if stream.codec_context.name in _NO_FRAME_THREADS else "AUTO"
        stream.codec_context.thread_count = self._threads
        if stream.codec_context.name in LOSSLESS:
            stream.codec_context.options = CHECKED
        self._read = 0
        return container, stream

    def _packets(self, container: InputContainer, stream: VideoStream) -> Iterator[VideoPacket]:
        """Packets of the video, as far as the file can be read.

        Raises:
            ResultHeldBack: The drive failed, and the film must be whole.
        """
        path, rest = self._media.path, message("reading.rest-unreadable")
        for packet in readable_packets(path, container, [stream], lambda: self.report(rest)):
            failure = failure_of(container)
            if failure is not None:  # FFmpeg takes it for the end of the file, or of the packet
                reason = reason_of(failure)
                self._fall_short(ResultHeldBack("source-lost", name=path.name, reason=reason), rest)
            self._read += not packet.is_discard and (packet.size > 0 or packet.pts is not None)
            yield packet

    def _decoded(
        self, packets: Iterator[VideoPacket], stream: VideoStream
    ) -> Iterator[PlanarFrame]:
        times = FrameTimes(stream, StampCheck(self._media.container))
        is_checked = None
        for packet in packets:
            if stream.codec_context.name == "ffv1" and packet.size:
                data = bytes(packet)
                is_checked = ffv1_crc.has_checksums(data) if is_checked is None else is_checked
                self._concealed += is_checked and ffv1_crc.is_damaged(data)
            for frame in self._decode(stream, packet):
                self._concealed += frame.is_corrupt
                pts = times.pts_of(frame)
                yield PlanarFrame(
                    planes=self._planes(frame), pts=pts, duration=max(0, frame.duration or 0)
                )
        if times.jumps:
            self.report(message("reading.clock-jumps-back"))

    def _decode(self, stream: VideoStream, packet: VideoPacket) -> list[VideoFrame]:
        try:
            return stream.decode(packet)
        except av.error.FFmpegError as err:
            self._raise_for_memory(err)
            self._damaged += 1
        return []

    def _raise_for_memory(self, error: Exception) -> None:
        """Raises OutOfMemory where that is what an error means: nothing is damaged then."""
        if memory_ran_out(error):
            with translated(self._media.path):
                raise error

    def _report_damage(self) -> None:
        if self._damaged:
            self.report(message("reading.frames-damaged", count=self._damaged))
        if self._concealed:
            self.report(message("reading.frames-concealed", count=self._concealed))


class StampCheck:
    """Finds time stamps of a broadcast that a bit error made leap ahead.

    A leap counts when the next stamp confirms it: then nothing was sent for a while. Subtitles are
    not checked, they leap.
    """

    def __init__(self, container: str) -> None:
        self._is_broadcast = container in BROADCAST
        self._leapt = Fraction(0)

    def is_wrong(self, time: int, last: int | None, base: Fraction) -> bool:
        """Whether a stamp cannot be meant.

        Args:
            time: In the time base.
            last: The stamp before it; None at the beginning.
            base: Time base, s.
        """
        if not self._is_broadcast or last is None or (time - last) * base < _LEAP_S:
            return False
        before, self._leapt = self._leapt, time * base
        return not 0 <= self._leapt - before <= JUMP_S


class FrameTimes:
    """Time stamps of decoded frames, also where a file has none.

    A frame keeps the stamp of its packet. Where the container has only decoding times (AVI), those
    are taken, which are right after reordering. Streams without any times (raw H.264) get exact
    ones from the frame rate. Stamps always rise: one that does not is moved right after the frame
    before it, and a clock that jumps back goes on from there.
    """

    def __init__(self, stream: Any, check: StampCheck | None = None) -> None:
        self._base = Fraction(stream.time_base or Fraction(1, 1000))
        self._rate = Fraction(stream.guessed_rate or stream.average_rate or 25)
        self._frame_units = max(1, round(1 / self._rate / self._base))  # of a frame, nominal
        self._origin: int | None = None
        self._untimed = 0  # frames without a stamp since the origin
        self._last: int | None = None
        self._shift = 0
        self._check = check
        self.jumps = 0  # how often the clock jumped back

    def pts_of(self, frame: Any) -> int:
        """The stamp of the next frame in decoding order, in the stream's time base."""
        pts = frame.pts if frame.pts is not None else frame.dts
        if pts is None or self._is_wrong(pts):
            pts = self._from_rate()
        else:
            pts += self._shift
            if self._last is not None and (self._last - pts) * self._base > JUMP_S:
                self._shift += self._last + self._frame_units - pts
                pts = self._last + self._frame_units
                self.jumps += 1
            self._origin, self._untimed = pts, 0
        if self._last is not None and pts <= self._last:
            pts = self._last + 1
        self._last = int(pts)
        return self._last

    def _is_wrong(self, pts: int) -> bool:
        check = self._check
        return check is not None and check.is_wrong(pts + self._shift, self._last, self._base)

    def _from_rate(self) -> int:
        if self._origin is None:
            self._origin = 0
            return 0
        self._untimed += 1
        return self._origin + round(self._untimed / self._rate / self._base)


def _skip_to_key(packets: Iterator[VideoPacket]) -> Iterator[VideoPacket]:
    for packet in packets:
        if packet.is_keyframe or packet.size == 0:
            yield packet
            break
    yield from packets


def _seek_before(container: InputContainer, stream: VideoStream, pts: int) -> bool:
    """Seek to the key frame before the one that `pts` needs; False where that is impossible."""
    key = _last_key(container, stream, pts, pts)
    if key is None:
        return False
    first = min(key.shown, key.stored) - 1
    earlier = _last_key(container, stream, first, key.shown - 1)
    container.seek((earlier or key).target, stream=stream)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyFrame:
    target: int  # seeking there leads to it
    shown: int  # presentation time
    stored: int  # decoding time


def _last_key(
    container: InputContainer, stream: VideoStream, at: int, limit: int
) -> _KeyFrame | None:
    """A key frame shown at or before `limit`, close before `at`.

    Without an index, a seek may end after that key frame: then it goes back further.
    """
    step = max(1, round(1 / (stream.time_base or 1)))  # one second, then two, four, ...
    for _ in range(_MAX_SEEKS):
        key = _key_from(container, stream, at)
        if key is None or key.shown <= limit:
            return key
        at, step = at - step, 2 * step
    return None


def _key_from(container: InputContainer, stream: VideoStream, at: int) -> _KeyFrame | None:
    """The first key frame after a seek to `at`; None if the seek fails."""
    try:
        container.seek(at, stream=stream)
        for packet in _skip_to_key(packets_of(container, stream)):
            shown = packet.pts if packet.pts is not None else packet.dts
            if shown is None:
                return None
            stored = packet.dts if packet.dts is not None else shown
            return _KeyFrame(target=at, shown=shown, stored=stored)
    except (av.error.FFmpegError, OSError) as err:
        if memory_ran_out(err):
            raise
        return None  # not seekable
    return None
