"""Frames of a film through FFmpeg's demuxers and decoders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import av
from av.stream import Discard
from av.video.stream import VideoStream

from engine.core.errors import UnreadableMedia
from engine.protocol.media import MediaInfo
from engine.video.read.conform import Conformer
from engine.video.read.frames import PlanarFrame
from engine.video.read.opening import (
    check_disk,
    empty_packet,
    open_input,
    packets_of,
    translated,
)
from engine.video.read.time_stamps import Timeline

if TYPE_CHECKING:
    from av import Packet, VideoFrame
    from av.container import InputContainer

    VideoPacket = Packet[VideoStream]

_VAGUE = {"mpeg"}  # states too few times: after seeking they would be others
# WORKAROUND for FFmpeg 8.1: threads that decode frames side by side can wait for each other for
# ever in a damaged HEVC stream.
_NO_FRAME_THREADS = {"hevc", "vvc"}
_MAX_STEPS = 10  # seeks towards the beginning before giving up


class FilmSource:
    """One file, decoded; damaged frames are left out and counted.

    Memory: the frames that the decoder holds back, and one.
    """

    def __init__(self, media: MediaInfo, threads: int) -> None:
        self._media = media
        self._threads = threads
        self._stack = ExitStack()
        self._conform = Conformer(media.video)
        self._damaged = 0
        self._concealed = 0
        self.problems: list[str] = []

    def close(self) -> None:
        """Close the file."""
        self._stack.close()

    def frames(self) -> Iterator[PlanarFrame]:
        """All frames from the first one on; at the end `problems` says whether all were there."""
        container, stream = self._open()
        count = 0
        for frame in self._decoded(self._packets(container, stream), stream):
            count += 1
            yield frame
        self._judge_end(count)

    def frames_before(self, pts: int) -> Iterator[PlanarFrame] | None:
        """Frames from a key frame on, at least one group of pictures before the one of `pts`.

        That one group more makes frames exact which are shown before their key frame and refer
        to the group before (open groups of pictures). None where the file cannot seek.
        """
        if self._media.container in _VAGUE:
            return None
        container, stream = self._open()
        with translated(self._media.path):
            if not _seek_before(container, stream, pts):
                return None
        return self._from_key(container, stream)

    def _from_key(self, container: InputContainer, stream: VideoStream) -> Iterator[PlanarFrame]:
        packets = _skip_to_key(self._packets(container, stream))
        yield from self._decoded(packets, stream)
        self._tell_damage()

    def _open(self) -> tuple[InputContainer, VideoStream]:
        self.close()
        path, index = self._media.path, self._media.video.index
        container = self._stack.enter_context(open_input(path))
        streams = container.streams
        stream = streams[index] if index < len(streams) else None
        if not isinstance(stream, VideoStream):
            raise UnreadableMedia(
                f"{path.name} has changed: its picture is no longer there.",
                hint="Add the file again.",
                path=path,
            )
        for other in streams:
            if other.index != index:
                other.discard = Discard.all
        stream.thread_type = "SLICE" if stream.codec_context.name in _NO_FRAME_THREADS else "AUTO"
        stream.codec_context.thread_count = self._threads
        return container, stream

    def _packets(self, container: InputContainer, stream: VideoStream) -> Iterator[VideoPacket]:
        """Packets of the film, as far as the file can be read."""
        packets = packets_of(container, stream)
        while True:
            try:
                packet = next(packets, None)
            except av.error.MemoryError as err:
                with translated(self._media.path):
                    raise err
            except (av.error.FFmpegError, OSError):
                check_disk(self._media.path)
                self._tell("The file is damaged: nothing could be read behind the damage.")
                yield empty_packet()
                return
            if packet is None:
                return
            yield packet

    def _decoded(
        self, packets: Iterator[VideoPacket], stream: VideoStream
    ) -> Iterator[PlanarFrame]:
        timeline = Timeline(stream)
        for packet in packets:
            for frame in self._decode(stream, packet):
                self._concealed += frame.is_corrupt
                pts = timeline.pts_of(frame)
                yield PlanarFrame(
                    planes=self._conform(frame), pts=pts, duration=max(0, frame.duration or 0)
                )
        if timeline.jumps:
            self._tell("The clock of the file jumps back; the frames were put one after another.")

    def _decode(self, stream: VideoStream, packet: VideoPacket) -> list[VideoFrame]:
        try:
            return stream.decode(packet)
        except av.error.MemoryError as err:
            with translated(self._media.path):
                raise err
        except av.error.FFmpegError:
            self._damaged += 1
        return []

    def _judge_end(self, count: int) -> None:
        self._tell_damage()
        video = self._media.video
        if video.frame_count_is_exact and count < video.frame_count:
            self._tell(f"The film ends early: {count} of {video.frame_count} frames were there.")
        elif self._media.is_cut_short:
            self._tell(f"The end of the file is missing; {count} frames were there.")

    def _tell_damage(self) -> None:
        if self._damaged:
            self._tell(f"Damaged frames that could not be decoded: {self._damaged}.")
        if self._concealed:
            self._tell(f"Damaged frames that may look wrong: {self._concealed}.")
        for problem in self._conform.problems:
            self._tell(problem)

    def _tell(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


def _skip_to_key(packets: Iterator[VideoPacket]) -> Iterator[VideoPacket]:
    for packet in packets:
        if packet.is_keyframe or packet.size == 0:
            yield packet
            break
    yield from packets


def _seek_before(container: InputContainer, stream: VideoStream, pts: int) -> bool:
    """Put the reading position at the key frame before the one that `pts` needs."""
    key = _last_key(container, stream, pts, pts)
    if key is None:
        return False
    first = min(key.shown, key.stored) - 1
    earlier = _last_key(container, stream, first, key.shown - 1)
    container.seek((earlier or key).target, stream=stream)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    target: int  # seeking there leads to it
    shown: int
    stored: int


def _last_key(container: InputContainer, stream: VideoStream, at: int, limit: int) -> _Key | None:
    """A key frame that is shown at or before `limit`, close before `at`.

    Where there is no index, seeking may end behind a key frame: then it goes back further.
    """
    step = max(1, round(1 / (stream.time_base or 1)))  # one second, then two, four, ...
    for _ in range(_MAX_STEPS):
        key = _key_from(container, stream, at)
        if key is None or key.shown <= limit:
            return key
        at, step = at - step, 2 * step
    return None


def _key_from(container: InputContainer, stream: VideoStream, at: int) -> _Key | None:
    """The first key frame behind the place where seeking to `at` ends; None if that fails."""
    try:
        container.seek(at, stream=stream)
        for packet in _skip_to_key(packets_of(container, stream)):
            shown = packet.pts if packet.pts is not None else packet.dts
            if shown is None:
                return None
            stored = packet.dts if packet.dts is not None else shown
            return _Key(target=at, shown=shown, stored=stored)
    except (av.error.FFmpegError, OSError):
        return None  # not seekable
    return None
