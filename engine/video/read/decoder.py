"""Decoding of videos: frames with planes of one format and rising time stamps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
from av.stream import Discard
from av.video.stream import VideoStream

from engine.core.errors import ResultHeldBack, UnreadableMedia, memory_ran_out
from engine.core.file_access import reason_of
from engine.core.messages import Message, message
from engine.core.units import ratio_text
from engine.protocol.media import MediaInfo
from engine.video.planes import has_clipped, layout_of, planar_format, planes_of, without_margins
from engine.video.read.clock import BROADCAST, FrameTimes, StampCheck
from engine.video.read.field_filter import LEAD_FRAMES, FieldFilter, TimedFrame, frame_units
from engine.video.read.frames import PlanarFrame, Plane
from engine.video.read.media_file import (
    empty_packet,
    failure_of,
    open_input,
    packets_of,
    readable_packets,
    translated,
)
from engine.video.read.statements import FrameStatements
from engine.video.read.stream_info import decoder_of, has_alpha

if TYPE_CHECKING:
    from av import Packet, VideoFrame
    from av.container import InputContainer
    from av.video.codeccontext import VideoCodecContext

    VideoPacket = Packet[VideoStream]

import zlib

_INEXACT = {"mpeg"}  # container with too few time stamps: after a seek they would be others
# WORKAROUND for FFmpeg 8.1: with several frames decoded at once, a damaged HEVC stream can make
# the threads wait for each other for ever.
_NO_FRAME_THREADS = {"hevc", "vvc"}
LOSSLESS = {"ffv1", "png", "apng"}  # codecs whose checksums decoders can check
CHECKED = {"err_detect": "crccheck"}  # options for them
# Always as many for a video: how decoders conceal damage depends on it, with several frames at once
# also on chance, and frames must be the same when a video is read, resumed and compared.
_THREADS, _THREADS_OF_BROADCASTS = 2, 1
_MAX_SEEKS = 10  # towards the beginning before giving up


class FrameDecoder(ABC):
    """Frames of a source, all in the size, chroma and depth of its first one.

    Args:
        media: Result of `probe`.
        must_be_whole: Frames that cannot be read, though they should be there, are an error; else
            they are a problem. Frames that are damaged are a problem in any case.

    Attributes:
        problems: Differences from an undamaged file; complete after the last frame.
        taken: For deinterlaced video: time stamps of its own frames, in the time base of
            the source.
        left_out: Time stamps among them of repeated frames, which are left out.

    Memory: one frame.
    """

    def __init__(self, media: MediaInfo, *, must_be_whole: bool = False) -> None:
        self._media = media
        self._must_be_whole = must_be_whole
        self._layout = replace(layout_of(media.video.pixel_format), has_alpha=media.video.has_alpha)
        self.problems: list[Message] = []
        self.taken = array("q")
        self.left_out = array("q")

    @abstractmethod
    def frames(self) -> Iterator[PlanarFrame]:
        """All frames, in presentation order."""

    @abstractmethod
    def frames_before(self, pts: int) -> Iterator[PlanarFrame] | None:
        """Frames from somewhere before `pts` on, exact from `pts` on; None if it cannot seek."""

    @abstractmethod
    def key_frames(self, places: Iterable[int]) -> Iterator[PlanarFrame]:
        """The key frame before each time stamp, each of them once: images to look at."""

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
        """Planes of what is shown of a frame, whatever its size or format."""
        video = self._media.video
        if not video.has_alpha and has_alpha([frame], video.codec):
            self.report(message("reading.alpha-lost"))
        planes = planes_of(self._uniform(frame), alpha=video.has_alpha)
        return without_margins(planes, video.chroma, video.cropped)

    def _uniform(self, frame: VideoFrame) -> VideoFrame:
        """A frame in the size and format of the video: both may change within the file."""
        video, own = self._media.video, layout_of(frame.format.name)
        if self._layout.is_float and has_clipped(frame):
            self.report(message("reading.values-clipped"))
        changed: dict[str, Any] = {}
        whole = video.decoded_size
        if (frame.width, frame.height) != (whole.width, whole.height):
            size = f"{frame.width}x{frame.height}"
            self.report(message("reading.size-changes", size=size, original=whole))
            changed = {"width": whole.width, "height": whole.height}
        elif (own.chroma, own.bit_depth) != (self._layout.chroma, self._layout.bit_depth):
            now, original = frame.format.name, video.pixel_format
            self.report(message("reading.format-changes", format=now, original=original))
        else:
            return frame
        return frame.reformat(**changed, format=planar_format(self._layout), threads=1)


class VideoDecoder(FrameDecoder):
    """Decodes a video file; damaged frames are left out and counted.

    Memory: the frames that the decoder of FFmpeg holds back, and one.
    """

    def __init__(self, media: MediaInfo, *, must_be_whole: bool = False) -> None:
        super().__init__(media, must_be_whole=must_be_whole)
        self._stack = ExitStack()
        self._codec: VideoCodecContext | None = None
        self._aspects: set[Fraction] = set()  # of pixels, that the coded stream states
        self._read = 0  # packets that are shown
        self._damaged = 0
        self._concealed = 0

    def close(self) -> None:
        """Close the file; the decoder may be used again."""
        self._stack.close()

    def frames(self) -> Iterator[PlanarFrame]:
        """All frames; at the end `problems` shows whether some are missing.

        Raises:
            ResultHeldBack: Some cannot be read, and the video must be whole.
        """
        container, stream = self._open()
        count = 0
        for frame in self._decoded(self._packets(container, stream), stream):
            count += 1
            yield frame
        video = self._media.video
        expected = video.frame_count if video.frame_count_is_exact else 0
        if count < expected and self._read < expected:
            about = {"count": count, "expected": expected}
            error = ResultHeldBack("frames-missing", name=self._media.name, **about)
            self._fall_short(error, message("reading.ends-early", **about))
        elif count < expected:  # decoders leave out some without an error
            self._damaged = max(self._damaged, expected - count)
        elif self._media.is_cut_short:
            self.report(message("reading.end-missing", count=count))
        self._report_damage()

    def frames_before(self, pts: int) -> Iterator[PlanarFrame] | None:
        """Frames from a key frame on, at least one group of pictures before that of `pts`.

        Frames of an open group of pictures are shown before their key frame and refer to the group
        before: with that group decoded too, they are exact. None where the file cannot seek.
        """
        if self._media.container in _INEXACT:
            return None
        container, stream = self._open()
        how = self._media.video.deinterlacing
        if how is not None:
            pts = pts // how.time_parts - round(LEAD_FRAMES * frame_units(self._media.video))
        with translated(self._media.path):
            if not _seek_before(container, stream, pts):
                return None
        return self._from_key(container, stream)

    def key_frames(self, places: Iterable[int]) -> Iterator[PlanarFrame]:
        """The key frame before each time stamp, each of them once: images to look at.

        Each costs a seek and one decoded frame, however far the key frames are apart.
        """
        container, stream = self._open()
        decoder_of(stream).thread_type = "SLICE"  # the others hold frames back
        shown: set[int] = set()
        for place in places:
            with translated(self._media.path):
                container.seek(place, stream=stream)
            packet = next(_skip_to_key(packets_of(container, stream)), None)
            if packet is None or packet.pts is None or packet.pts in shown:
                continue
            shown.add(packet.pts)
            frames = [*self._decode(packet), *self._decode(empty_packet())][:1]
            for frame in frames:
                yield PlanarFrame(planes=self._planes(frame), pts=packet.pts)

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
        codec = decoder_of(stream)
        codec.thread_type = "SLICE" if codec.name in _NO_FRAME_THREADS else "AUTO"
        codec.thread_count = (
            _THREADS_OF_BROADCASTS if self._media.container in BROADCAST else _THREADS
        )
        if codec.name in LOSSLESS:
            codec.options = CHECKED
        self._codec, self._read = codec, 0
        return container, stream

    def _packets(self, container: InputContainer, stream: VideoStream) -> Iterator[VideoPacket]:
        """Packets of the video, as far as the file can be read.

        Raises:
            ResultHeldBack: The drive failed, and the video must be whole.
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
        how = self._media.video.deinterlacing
        stated = FrameStatements(self._media.video.codec, how.time_parts if how is not None else 1)
        frames = (
            frame
            for packet in self._with_checksums(packets, stream)
            for frame in self._decode(packet)
        )
        timed: Iterator[TimedFrame] = stated.noted(
            TimedFrame(frame=frame, pts=times.pts_of(frame), duration=max(0, frame.duration or 0))
            for frame in frames
        )
        if how is not None:
            timed = self._deinterlaced(timed)
        for one in timed:
            found = stated.until(one.pts)
            yield PlanarFrame(
                planes=self._planes(one.frame),
                pts=one.pts,
                duration=one.duration,
                captions=found.captions,
                hdr10_plus=found.hdr10_plus,
                stated=found.kinds,
            )
        if times.jumps:
            self.report(message("reading.clock-jumps-back"))
        if times.wraps:
            self.report(message("reading.clock-wraps"))
        self._report_aspects()

    def _with_checksums(
        self, packets: Iterator[VideoPacket], stream: VideoStream
    ) -> Iterator[VideoPacket]:
        """Pass packets on, and count those of FFV1 with a wrong checksum."""
        is_ffv1, is_checked = stream.codec_context.name == "ffv1", None
        for packet in packets:
            if is_ffv1 and packet.size:
                data = bytes(packet)
                is_checked = has_checksums(data) if is_checked is None else is_checked
                self._concealed += is_checked and is_damaged(data)
            yield packet

    def _deinterlaced(self, timed: Iterator[TimedFrame]) -> Iterator[TimedFrame]:
        fields = FieldFilter(self._media.video)
        self.taken, self.left_out = array("q"), fields.left_out
        with translated(self._media.path):
            for one in timed:
                self.taken.append(one.pts)
                yield from fields.frames(self._uniform(one.frame), one.pts, one.duration)
            yield from fields.rest()

    def _decode(self, packet: VideoPacket) -> list[VideoFrame]:
        codec = self._codec
        assert codec is not None
        try:
            found = codec.decode(packet)
        except av.error.FFmpegError as err:
            self._raise_for_memory(err)
            self._damaged += 1
            return []
        self._concealed += sum(frame.is_corrupt for frame in found)
        if codec.sample_aspect_ratio:
            self._aspects.add(codec.sample_aspect_ratio)
        return found

    def _raise_for_memory(self, error: Exception) -> None:
        """Raises OutOfMemory where that is what an error means: nothing is damaged then."""
        if memory_ran_out(error):
            with translated(self._media.path):
                raise error

    def _report_aspects(self) -> None:
        video = self._media.video
        if len(self._aspects) > 1:
            for aspect in sorted(self._aspects - {video.sample_aspect}):
                now, original = map(video.shape_with, (aspect, video.sample_aspect))
                about = {"aspect": ratio_text(now), "original": ratio_text(original)}
                self.report(message("reading.aspect-changes", **about))

    def _report_damage(self) -> None:
        if self._damaged:
            self.report(message("reading.frames-damaged", count=self._damaged))
        if self._concealed:
            self.report(message("reading.frames-concealed", count=self._concealed))


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


# --- checksums of FFV1's slices: FFmpeg's decoder conceals damage without a sign of it

_FOOTER = 8  # bytes: 3 of the slice's size, 1 of its state, 4 of its CRC
_ALL = 0xFFFFFFFF
_REVERSED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))


def has_checksums(packet: bytes) -> bool:
    """Whether each slice of a frame ends in a checksum: version 3 with the option `slicecrc`."""
    return sum(map(len, _slices(packet))) == len(packet)


def is_damaged(packet: bytes) -> bool:
    """Whether a checksum does not fit, in a frame of a stream that has them."""
    return not has_checksums(packet) or any(_remainder(one) for one in _slices(packet))


def _slices(packet: bytes) -> Iterator[bytes]:
    """Slices from the last to the first, as far as their sizes lead."""
    end = len(packet)
    while end >= _FOOTER:
        begin = end - _FOOTER - int.from_bytes(packet[end - _FOOTER : end - _FOOTER + 3], "big")
        if begin < 0:
            return
        yield packet[begin:end]
        end = begin


def _remainder(data: bytes) -> int:
    """CRC-32 with the highest bit first and without inversions; 0 over data with their own CRC.

    zlib computes it with the lowest bit first, so bytes are reversed.
    """
    return zlib.crc32(data.translate(_REVERSED), _ALL) ^ _ALL
