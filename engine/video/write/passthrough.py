"""Passthrough: the other streams of the source, copied packet by packet or decoded."""

from __future__ import annotations

import logging
import mimetypes
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import inf
from typing import Any

import av
from av.container import InputContainer, OutputContainer
from av.error import FFmpegError
from av.stream import Discard

from engine.core.messages import message
from engine.protocol.media import MediaInfo
from engine.protocol.plan import PassPlan, Plan
from engine.video.read.clock import PartClock, StampCheck, film_jumps, without_hidden
from engine.video.read.media_file import open_input, readable_packets, stream_at
from engine.video.read.sound import restarts
from engine.video.read.stream_info import title_of
from engine.video.read.subtitles import (
    codec_of,
    continues,
    lasts,
    replaces_all,
    seen_from,
    shown_length,
)
from engine.video.write.containers import CONTAINERS
from engine.video.write.converted_sound import SoundConverter, converted_stream
from engine.video.write.converted_text import TextConverter, text_stream
from engine.video.write.segment_file import TimedPacket
from engine.video.write.trial_mux import Refusal, TrialMux

logger = logging.getLogger(__name__)

_SLACK = 10.0  # s that streams of one file may be apart in it
_ASKED_S = 0.5  # s after which texts are asked again for what has begun
# True only of the source's own streams, or of their encoding.
_OF_THE_STREAM = frozenset(
    {"encoder", "duration", "vendor_id", "filename", "mimetype", "rotate", "name"}
)
_STATISTICS = re.compile(
    r"^(bps|number_of_frames|number_of_bytes|duration|_statistics_\w+)(-\w+)?$"
)
_COVER_SUFFIX = {"mjpeg": ".jpg", "png": ".png", "bmp": ".bmp", "gif": ".gif", "webp": ".webp"}


def copied_stream(output: OutputContainer, stream: Any, time_base: Fraction | None) -> Any:
    """Add a stream to a file, as it is in the source; a time base only where it is not its own."""
    new: Any = output.add_stream_from_template(stream, opaque=True)
    new.disposition = int(stream.disposition)
    # TRAP: PyAV 18.1 raises an error for tags beyond ASCII, as those of sound and subtitles in M2TS
    if codec_of(stream) == "mov_text" and stream.codec_context.codec_tag == "tx3g":
        new.codec_tag = "tx3g"  # in MOV FFmpeg would take QuickTime's older text
    if time_base is not None:
        new.time_base = time_base
    return new


def stream_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Entries of a stream that stay true: language, title, handler, but no statistics."""
    title = title_of(metadata)  # in MP4 and MOV too FFmpeg writes what is called so
    kept = {
        name: value
        for name, value in metadata.items()
        if name.lower() not in _OF_THE_STREAM and not _STATISTICS.match(name.lower())
    }
    return {**kept, "title": title} if title else kept


class CopiedStreams:
    """Adds the streams that the plan copies or decodes, then yields their packets.

    Each stream goes through a trial of the muxer first: a stream that it refuses is not added, and
    a packet that it refuses is dropped, as those of damaged recordings are.

    Args:
        media: The source.
        plan: States which streams.
        shift: Seconds to subtract from every time.
        end: End of a trimmed result, in seconds after the shift; None copies everything.
        options: Options of the muxer.

    Attributes:
        refused: Streams that the muxer does not take, by their index in the source.
        taken: Number of packets it takes of each other stream.
        dropped: Number of packets it does not take.
    """

    def __init__(
        self,
        media: MediaInfo,
        plan: Plan,
        shift: Fraction,
        end: Fraction | None,
        options: Mapping[str, str],
    ) -> None:
        self._media = media
        self._shift = shift
        self._end = end
        self._options = options
        self._cuts_start = plan.start is not None
        self._copied = {p.index: p for p in plan.streams if p.copied}
        self._container = CONTAINERS[plan.container]
        self._streams: dict[int, tuple[Any, TrialMux]] = {}  # by index in the source
        self._converters: dict[int, SoundConverter] = {}
        self._texts: dict[int, TextConverter] = {}
        self._begun: dict[int, list[Any]] = {}  # subtitles before a part
        self.refused: set[int] = set()
        self.taken: Counter[int] = Counter()
        self.dropped: Counter[int] = Counter()

    def add(self, stream: Any, output: OutputContainer) -> None:
        """Add one stream of the source to the result, if the plan copies it and the muxer can."""
        plan = self._copied.get(stream.index)
        if plan is None or plan.kind == "attachment" or self._becomes_attachment(plan):
            return
        codec = plan.converted or plan.codec
        base = self._fine_clock(stream.time_base) if codec == "mov_text" else None
        is_copied = not plan.converted and not self._has_gaps(codec)
        if is_copied:
            add = partial(copied_stream, stream=stream, time_base=base)
        elif plan.kind == "subtitle":
            add = partial(text_stream, stream=stream, codec=codec, time_base=base)
        else:
            add = partial(converted_stream, stream=stream, codec=codec)
        try:
            trial = TrialMux(add, self._container.muxer, self._options)
        except Refusal as err:
            logger.info("stream %d is refused: %s", stream.index, err)
            self.refused.add(stream.index)
            return
        new = add(output)
        new.metadata.update(stream_metadata(stream.metadata))
        self._streams[stream.index] = new, trial
        if plan.converted and plan.kind == "subtitle":
            self._texts[stream.index] = TextConverter(stream, new)
        elif not is_copied:
            has_times = codec.startswith("pcm_") and self._container.has_times
            self._converters[stream.index] = SoundConverter(stream, new, has_times=has_times)

    def _has_gaps(self, codec: str) -> bool:
        """Whether PCM may have gaps, which MP4 and MOV have no place for: silence fills them."""
        of_mov = {"mov", "mp4"} & set(self._media.container.split(","))
        return codec.startswith("pcm_") and not self._container.has_times and not of_mov

    def found(self, stream: PassPlan) -> PassPlan:
        """Treatment of a stream, after all of its packets and `finish`."""
        if stream.index in self.refused:
            why = message("reason.stream.refused", title=self._container.title)
            return replace(stream, copied=False, why=why)
        is_empty = stream.index in self._streams and not self.taken[stream.index]
        if is_empty and not self._container.keeps_empty:
            return replace(stream, copied=False, why=message("reason.stream.empty"))
        converter = self._converters.get(stream.index)
        is_mixed = converter is not None and converter.is_mixed
        return replace(stream, dropped=self.dropped[stream.index], is_mixed=is_mixed)

    def finish(self) -> None:
        """End the trials; a stream that cannot be completed is refused too."""
        for index, (_, trial) in self._streams.items():
            try:
                trial.finish()
            except Refusal as err:
                logger.info("stream %d cannot be completed: %s", index, err)
                self.refused.add(index)

    def add_attachments(self, source: InputContainer, output: OutputContainer) -> None:
        """Add fonts, and in MKV the covers, as attached files."""
        known = {stream.index: stream for stream in self._media.streams}
        for index, plan in sorted(self._copied.items()):
            info = known[index]
            stream = stream_at(self._media.path, source, index)
            if plan.kind == "attachment":
                data, name = stream.data, info.file_name or f"attachment_{index}"
            elif self._becomes_attachment(plan):
                suffix = _COVER_SUFFIX.get(info.codec, ".jpg")
                data, name = self._cover(index), info.file_name or f"cover{suffix}"
            else:
                continue
            mime = info.mime_type or mimetypes.guess_type(name)[0] or "application/octet-stream"
            new = output.add_attachment(name, mime, data)
            new.metadata.update({**stream_metadata(stream.metadata), "filename": name})
            new.metadata["mimetype"] = mime

    def packets(self, source: InputContainer) -> Iterator[TimedPacket]:
        """Packets of the copied streams in the order of the file, as far as it can be read.

        Raises:
            InputError: The source is gone.
        """
        if not self._streams:
            return
        for stream in source.streams:
            if stream.index not in self._streams:
                stream.discard = Discard.all
        copied = {i: stream_at(self._media.path, source, i) for i in self._streams}
        jumps = film_jumps(self._media)
        clocks = {
            index: StreamClock(self._parts(stream, jumps), self._shift, self._streams[index][1])
            for index, stream in copied.items()
        }
        restart = all(
            restarts(codec_of(copied[index]), exactly=not self._copied[index].is_lossy)
            for index in self._converters
        )
        if restart and not jumps:  # what others give depends on all that was before
            self._seek(source, [index for index, one in copied.items() if one.type == "subtitle"])
        asked = 0.0  # when texts were last asked for what has begun
        packets = readable_packets(self._media.path, source, [*copied.values()])
        for packet in without_hidden(packets, self._converters):
            if packet.pts is None and packet.dts is None and not packet.size:
                continue  # the end of a stream
            index = packet.stream.index
            clock = clocks[index]
            if not (packet.is_discard and index in self._converters):
                clock.set_times(packet)
            if self._end is not None and clock.seconds > float(self._end) + _SLACK:
                break
            if clock.seconds >= 0:
                yield from self._take_begun(clocks)
            if index in self._converters:
                yield from self._converted(index, packet, clock)
            elif self._is_placed(packet, clock):
                yield from self._copied_or_text(packet, clock)
            if clock.seconds >= asked + _ASKED_S:
                asked = clock.seconds
                yield from self._timed_texts(asked, clocks)
        yield from self._take_begun(clocks)
        for index in self._converters:
            yield from self._converted(index, None, clocks[index])
        yield from self._timed_texts(inf, clocks)

    def _copied_or_text(self, packet: Any, clock: StreamClock) -> Iterator[TimedPacket]:
        index = packet.stream.index
        made = self._texts[index].convert(packet) if index in self._texts else (packet,)
        yield from self._written(index, made, clock)

    def _take_begun(self, clocks: Mapping[int, StreamClock]) -> Iterator[TimedPacket]:
        """Subtitles that are shown when a part begins, at its beginning."""
        for index, packets in self._begun.items():
            for packet in packets:
                packet.duration = max(0, packet.duration + packet.pts)
                packet.pts = packet.dts = 0
                yield from self._copied_or_text(packet, clocks[index])
        self._begun.clear()

    def _parts(self, stream: Any, jumps: Sequence[Fraction]) -> PartClock:
        check = StampCheck(self._media.container) if stream.type == "audio" else None
        return PartClock(stream.time_base or Fraction(1, 1000), jumps, check)

    def _fine_clock(self, base: Fraction) -> Fraction:
        """A time base for text in MP4 that counts faster than those of all other streams.

        WORKAROUND: FFmpeg's muxer compares decoding times of different streams without regard to
        their units, and puts empty texts where the sound or picture counts faster.
        """
        rates = [stream.sample_rate for stream in self._media.audio_streams]
        fastest = 2 * max(100_000, self._media.video.time_base.denominator, *rates)
        return base / max(1, round(fastest * base))

    def _is_placed(self, packet: Any, clock: StreamClock) -> bool:
        """Whether a packet belongs to a part; a subtitle across its ends is shortened."""
        is_text = packet.stream.type == "subtitle"
        if packet.stream.index in self._texts:
            self._texts[packet.stream.index].set_end(packet)
        if self._end is not None and not clock.cut_end(packet, self._end, is_text):
            return False
        is_before = self._cuts_start and packet.pts < 0
        if is_before and is_text:
            self._hold(packet)
        return not is_before

    def _hold(self, packet: Any) -> None:
        """Keep a subtitle that is shown when a part begins until then."""
        stream = packet.stream
        begun = self._begun.setdefault(stream.index, [])
        if lasts(stream, packet) and replaces_all(stream, packet):
            begun[:] = [one for one in begun if not lasts(stream, one)]
        is_rest = continues(stream, packet) and not begun  # of one that is over
        if packet.size and not is_rest and packet.pts + shown_length(stream, packet) > 0:
            begun.append(packet)

    def _written(
        self, index: int, made: Iterable[Any], clock: StreamClock
    ) -> Iterator[TimedPacket]:
        """Packets for the result, as far as the muxer takes them; None counts as dropped."""
        for packet in made:
            timed = None if packet is None else self._taken(packet, index, clock)
            if timed is not None:
                yield timed
            elif packet is None:
                self.dropped[index] += 1

    def _timed_texts(
        self, seconds: float, clocks: Mapping[int, StreamClock]
    ) -> Iterator[TimedPacket]:
        """Timed text that began some time before a time, s, of all streams in order.

        WORKAROUND: FFmpeg's muxer ends a text when a later one of another stream comes.
        """
        begun = [
            (start, index, packet)
            for index, texts in self._texts.items()
            for start, packet in texts.take_begun(seconds)
        ]
        for _, index, packet in sorted(begun, key=lambda one: one[0]):
            yield from self._written(index, [packet], clocks[index])

    def _converted(self, index: int, packet: Any, clock: StreamClock) -> Iterator[TimedPacket]:
        first = Fraction(0) if self._cuts_start else None
        made = self._converters[index].packets(packet, first, self._end)
        yield from self._written(index, made, clock)

    def _taken(self, packet: Any, index: int, clock: StreamClock) -> TimedPacket | None:
        """A packet for the result, if the muxer takes it."""
        new, trial = self._streams[index]
        seconds = float(packet.dts * packet.time_base)
        clock.keep_rising(packet)
        if not trial.takes(packet):
            self.dropped[index] += 1
            return None
        self.taken[index] += 1
        clock.last = packet.dts
        packet.stream = new
        return TimedPacket(packet=packet, seconds=seconds)

    def _seek(self, source: InputContainer, subtitles: Sequence[int]) -> None:
        """Skip most packets before a trimmed start, but no subtitle that is shown at it."""
        if not self._cuts_start or self._shift - self._media.start < _SLACK:
            return
        first = seen_from(self._media.path, source, subtitles, self._shift)
        if first is None or first - self._media.start < _SLACK:
            return
        with suppress(FFmpegError):  # then all packets before it are read and dropped
            source.seek(int(min(first, self._shift - Fraction(_SLACK)) * av.time_base))

    def _becomes_attachment(self, plan: PassPlan) -> bool:
        return plan.kind == "cover" and self._container.takes_attachments

    def _cover(self, index: int) -> bytes:
        with open_input(self._media.path) as source:
            cover = stream_at(self._media.path, source, index)
            for packet in readable_packets(self._media.path, source, [cover]):
                if packet.size:
                    return bytes(packet)
        return b""


class StreamClock:
    """Times of one stream: moved, complete, rising in the time base that the muxer chose."""

    def __init__(self, parts: PartClock, shift: Fraction, trial: TrialMux) -> None:
        self._parts = parts
        self._base = parts.base
        self._moved = round(shift / parts.base)
        self._trial = trial
        self._next = 0  # of the source, for a packet without a time
        self._before: int | None = None  # decoding time of the packet before, of the source
        self.last: int | None = None  # decoding time of the packet written last
        self.seconds = 0.0  # decoding time of the packet last placed

    def set_times(self, packet: Any) -> None:
        """Subtract the shift from a packet's times, filling in missing ones."""
        pts, dts = packet.pts, packet.dts
        if pts is None and dts is None:
            pts = dts = self._next
        pts, dts = dts if pts is None else pts, pts if dts is None else dts
        move = self._parts.moved(dts) - dts - self._moved
        packet.pts, packet.dts = pts + move, dts + move
        if packet.stream.type == "audio" and not packet.duration and self._before is not None:
            packet.duration = max(0, dts - self._before)  # without one MP4 would hide the last
        self._before = dts
        self._next = pts + (packet.duration or 0)
        self.seconds = float(packet.dts * self._base)

    def cut_end(self, packet: Any, end: Fraction, is_subtitle: bool) -> bool:
        """Whether a packet begins before a trimmed end; a subtitle across it is shortened."""
        last = round(end / self._base)
        if packet.pts >= last:
            return False
        if is_subtitle and packet.duration:
            packet.duration = min(packet.duration, last - packet.pts)
        return True

    def keep_rising(self, packet: Any) -> None:
        """Go over to the muxer's time base; repair times that go back, as damaged sources have."""
        base = self._trial.time_base
        ticks = packet.time_base / base
        packet.pts, packet.dts = _rounded(packet.pts * ticks), _rounded(packet.dts * ticks)
        packet.duration = _rounded((packet.duration or 0) * ticks)
        packet.time_base = base
        if self.last is not None:
            packet.dts = max(packet.dts, self.last + self._trial.least_step)
            packet.pts = max(packet.pts, packet.dts)


def _rounded(value: Fraction) -> int:
    """The nearest whole number, halves away from 0, as FFmpeg rounds."""
    nearest = (2 * abs(value.numerator) + value.denominator) // (2 * value.denominator)
    return nearest if value >= 0 else -nearest
