"""Passthrough: the other streams of the source, copied packet by packet."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any

import av
from av.container import InputContainer, OutputContainer
from av.error import FFmpegError
from av.stream import Discard

from engine.core.errors import ContainerMismatch
from engine.protocol.media import MediaInfo, StreamInfo
from engine.protocol.plan import PassPlan, Plan
from engine.video.read.media_file import open_input, translated
from engine.video.write.containers import CONTAINERS
from engine.video.write.segment_file import TimedPacket

_SLACK = 10.0  # s that streams of one file may be apart in it
# True only of the source's own streams, or of their encoding.
_OF_THE_STREAM = frozenset({"encoder", "duration", "vendor_id", "filename", "mimetype", "rotate"})
_STATISTICS = re.compile(
    r"^(bps|number_of_frames|number_of_bytes|duration|_statistics_\w+)(-\w+)?$"
)
_COVER_SUFFIX = {"mjpeg": ".jpg", "png": ".png", "bmp": ".bmp", "gif": ".gif", "webp": ".webp"}


def stream_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Entries of a stream that stay true: language, title, handler, but no statistics."""
    return {
        name: value
        for name, value in metadata.items()
        if name.lower() not in _OF_THE_STREAM and not _STATISTICS.match(name.lower())
    }


class CopiedStreams:
    """Adds the streams that the plan copies, then yields their packets.

    Args:
        media: The source.
        plan: States which streams.
        shift: Seconds to subtract from every time.
        end: End of a trimmed result, in seconds after the shift; None copies everything.
    """

    def __init__(self, media: MediaInfo, plan: Plan, shift: Fraction, end: Fraction | None) -> None:
        self._media = media
        self._shift = shift
        self._end = end
        self._cuts_start = plan.start is not None
        self._copied = {p.index: p for p in plan.streams if p.copied}
        self._takes_attachments = CONTAINERS[plan.container].takes_attachments
        self._streams: dict[int, tuple[Any, StreamClock]] = {}  # by index in the source

    def add(self, stream: Any, output: OutputContainer) -> None:
        """Add one stream of the source to the result, if the plan copies it.

        Raises:
            ContainerMismatch: The container takes it by our tables, but not in fact.
        """
        plan = self._copied.get(stream.index)
        if plan is None or plan.kind == "attachment" or self._becomes_attachment(plan):
            return
        try:
            new: Any = output.add_stream_from_template(stream, opaque=True)
        except (FFmpegError, ValueError) as err:
            raise ContainerMismatch("stream-refused", index=stream.index, codec=plan.codec) from err
        new.metadata.update(stream_metadata(stream.metadata))
        new.disposition = int(stream.disposition)
        if plan.codec == "mov_text":
            new.time_base = self._fine_clock(stream.time_base)
        self._streams[stream.index] = new, StreamClock(stream.time_base, self._shift)

    def add_attachments(self, source: InputContainer, output: OutputContainer) -> None:
        """Add fonts, and in MKV the covers, as attached files."""
        known = {stream.index: stream for stream in self._media.streams}
        for index, plan in sorted(self._copied.items()):
            info = known[index]
            stream: Any = source.streams[index]
            if plan.kind == "attachment":
                data, name = stream.data, info.file_name or f"attachment_{index}"
            elif self._becomes_attachment(plan):
                data, name = self._cover(index), _cover_name(info)
            else:
                continue
            mime = info.mime_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
            new = output.add_attachment(name, mime, data)
            new.metadata.update({**stream_metadata(stream.metadata), "filename": name})
            new.metadata["mimetype"] = mime

    def packets(self, source: InputContainer) -> Iterator[TimedPacket]:
        """Packets of the copied streams in the order of the file.

        Raises:
            InputError: The source can no longer be read.
        """
        if not self._streams:
            return
        for stream in source.streams:
            if stream.index not in self._streams:
                stream.discard = Discard.all
        copied = [source.streams[index] for index in self._streams]
        with translated(self._media.path):
            self._seek(source)
            reader = source.demux(copied)
        while True:
            with translated(self._media.path):
                packet = next(reader, None)
            if packet is None:
                return
            if packet.pts is None and packet.dts is None and not packet.size:
                continue  # the end of a stream
            new, clock = self._streams[packet.stream.index]
            timed = self._placed(packet, new, clock)
            if timed is not None:
                yield timed
            elif self._end is not None and clock.seconds > float(self._end) + _SLACK:
                return

    def _fine_clock(self, base: Fraction) -> Fraction:
        """A time base for text in MP4 that counts faster than those of all other streams.

        WORKAROUND: FFmpeg's muxer compares decoding times of different streams without regard to
        their units, and puts empty texts where the sound or picture counts faster.
        """
        rates = [stream.sample_rate for stream in self._media.audio_streams]
        fastest = 2 * max(100_000, self._media.video.time_base.denominator, *rates)
        return base / max(1, round(fastest * base))

    def _placed(self, packet: Any, new: Any, clock: StreamClock) -> TimedPacket | None:
        clock.set_times(packet)
        is_text = new.type == "subtitle"
        if self._end is not None and not clock.cut_end(packet, self._end, is_text):
            return None
        if self._cuts_start and not clock.cut_start(packet, is_text):
            return None
        clock.keep_rising(packet)
        packet.stream = new
        return TimedPacket(packet=packet, seconds=clock.seconds)

    def _seek(self, source: InputContainer) -> None:
        """Skip most packets before a trimmed start."""
        if not self._cuts_start or self._shift - self._media.start < _SLACK:
            return
        with suppress(FFmpegError):  # then all packets before it are read and dropped
            source.seek(int((self._shift - Fraction(_SLACK)) * av.time_base))

    def _becomes_attachment(self, plan: PassPlan) -> bool:
        return plan.kind == "cover" and self._takes_attachments

    def _cover(self, index: int) -> bytes:
        with open_input(self._media.path) as source, translated(self._media.path):
            for packet in source.demux(source.streams[index]):
                if packet.size:
                    return bytes(packet)
        return b""


class StreamClock:
    """Times of one stream: moved, complete, rising."""

    def __init__(self, base: Fraction, shift: Fraction) -> None:
        self._base = base
        self._moved = round(shift / base)
        self._next = 0  # time of a packet that has none
        self._last: int | None = None
        self.seconds = 0.0  # decoding time of the packet last placed

    def set_times(self, packet: Any) -> None:
        """Subtract the shift from a packet's times, filling in missing ones."""
        pts, dts = packet.pts, packet.dts
        if pts is None and dts is None:
            pts = dts = self._next + self._moved
        packet.pts = (dts if pts is None else pts) - self._moved
        packet.dts = (pts if dts is None else dts) - self._moved
        self._next = packet.pts + (packet.duration or 0)
        self.seconds = float(packet.dts * self._base)

    def cut_end(self, packet: Any, end: Fraction, is_subtitle: bool) -> bool:
        """Whether a packet begins before a trimmed end; a subtitle across it is shortened."""
        last = round(end / self._base)
        if packet.pts >= last:
            return False
        if is_subtitle and packet.duration:
            packet.duration = min(packet.duration, last - packet.pts)
        return True

    def cut_start(self, packet: Any, is_subtitle: bool) -> bool:
        """Whether a packet belongs after a trimmed start; a subtitle across it is shortened."""
        if packet.pts >= 0:
            return True
        if not is_subtitle or packet.pts + (packet.duration or 0) <= 0:
            return False
        packet.duration += packet.pts
        packet.pts = packet.dts = 0
        return True

    def keep_rising(self, packet: Any) -> None:
        """Repair decoding times that go back, as damaged sources have them."""
        if self._last is not None and packet.dts <= self._last:
            packet.dts = self._last + 1
            packet.pts = max(packet.pts, packet.dts)
        self._last = packet.dts


def _cover_name(info: StreamInfo) -> str:
    return info.file_name or "cover" + _COVER_SUFFIX.get(info.codec, ".jpg")
