"""Subtitles of text that a container cannot hold: written in its own format, and read to compare.

FFmpeg's decoders give every format as events of ASS, of which its encoders write the text with
italic, bold and underlined parts. Positions of ASS have no place there; fonts and colours only in
timed text, and not all of them.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import inf
from typing import Any

from av.codec import CodecContext
from av.container import OutputContainer
from av.error import FFmpegError
from av.packet import Packet
from av.subtitles.subtitle import SubtitleSet

from engine.core.control import Control
from engine.core.errors import memory_ran_out
from engine.protocol.media import MediaInfo
from engine.video.read.digest import NO_TIME, StreamDigest
from engine.video.read.media_file import open_input, readable_packets, stream_at, translated
from engine.video.read.subtitles import ShownLengths
from engine.video.write.containers import FLAT, STYLED

logger = logging.getLogger(__name__)

_TEXT, _STYLE_NAME = 8, 2  # numbers of commas before the text and the style of an event
_USUAL_HEIGHT = "288"  # px of the frame for which FFmpeg's usual size of letters is meant
_LEAST_S = Fraction(1, 200)  # shorter moments come from rounded times
_WAIT_S = Fraction(1, 2)  # for texts that begin together and are stored somewhat later
_UNKNOWN_S = 4  # length of texts whose end the source does not state
_DRAWING = re.compile(r"\{[^}]*\\p[1-9][^}]*\}[^{]*")
_COMMENT = re.compile(r"\{[^\\}]*\}")  # of ASS; elsewhere braces are text
_STYLE = re.compile(r"\{\\[^}]*\}")
_BREAK = re.compile(r"\\[Nnh]|\s")
_SIGNS = str.maketrans("", "", "{}\\\u2060")  # which formats write in ways of their own
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})

# Start and duration in a time base, and the events that are shown, by their words.
Moment = tuple[int, int, dict[str, str]]


def text_stream(
    output: OutputContainer, stream: Any, codec: str, time_base: Fraction | None = None
) -> Any:
    """Add the stream of converted subtitles to a file, with an encoder of its own.

    Args:
        output: To write.
        stream: Stream of the source.
        codec: Format of the result, as `Container.text`.
        time_base: Time base of the packets; None for that of the source.
    """
    stream.codec_context.open(strict=False)  # which makes the header
    new: Any = output.add_stream(codec, time_base=time_base or stream.time_base)
    new.codec_context.subtitle_header = stream.codec_context.subtitle_header or _usual_header()
    if codec in FLAT:
        new.codec_context.options = {"height": _USUAL_HEIGHT}
        new.codec_context.codec_tag = "tx3g"  # see `copied_stream`
    new.disposition = int(stream.disposition)
    return new


class ShownTexts:
    """Texts that are shown at the same time, moment by moment.

    A text whose words are shown already is left out, as those that lie under others as their
    border or shadow. A text that comes later than one that begins after it begins with that one.

    Args:
        base: Time base of the stream.
    """

    def __init__(self, base: Fraction) -> None:
        self._least, self._wait = _LEAST_S / base, _WAIT_S / base
        self._unknown = round(_UNKNOWN_S / base)
        self._shown: list[tuple[int, str, str]] = []  # end, words and event of each text
        self._at = NO_TIME  # since when these are shown
        self._given: int | None = None  # start of the moment that was given last

    def find_length(self, duration: int | None) -> int:
        """The length of a text; an assumed one where the source states none."""
        return duration or self._unknown

    def add(self, start: int, duration: int | None, found: Iterable[str]) -> None:
        """Add events that begin together, after `take_before(start)`."""
        self._at = max(self._at, start)
        end = self._at + self.find_length(duration)
        self._shown += ((end, plain_text(event), event) for event in found)
        if self._at == self._given:  # cannot be changed any more
            self._at += 1

    def take_before(self, time: float) -> Iterator[Moment]:
        """Moments that begin before a time, which no text that follows changes."""
        while self._shown and self._at < time:
            length, texts = self._find_next()
            length = min(length, round(time) - self._at) if time < inf else length
            yield from self._give(length, texts)
            self._go_on(self._at + length)

    def take_begun(self, time: int) -> Iterator[Moment]:
        """Moments that began some time before a time; texts that follow may shorten the last."""
        while self._shown and self._at + self._wait <= time:
            length, texts = self._find_next()
            yield from self._give(length, texts)
            end = self._at + length
            is_last = all(text_end == end for text_end, _, _ in self._shown)
            if is_last or end + self._wait > time:
                return  # late texts may still join it
            self._go_on(end)

    def _go_on(self, time: int) -> None:
        self._at = time
        self._shown = [one for one in self._shown if one[0] > time]

    def _find_next(self) -> tuple[int, dict[str, str]]:
        texts: dict[str, str] = {}
        for _, words, event in self._shown:
            texts.setdefault(words, event)
        return min(end for end, _, _ in self._shown) - self._at, texts

    def _give(self, length: int, texts: dict[str, str]) -> Iterator[Moment]:
        if length >= self._least and self._at != self._given:
            self._given = self._at
            yield self._at, length, texts


class TextConverter:
    """Conversion of subtitles, packet by packet.

    Texts of MKV and WebM may overlap, and each packet of the source becomes one. Timed text shows
    one packet at a time: it has one for each moment at which other texts are shown.

    Args:
        stream: Stream of the source.
        new: Result of `text_stream`.
    """

    def __init__(self, stream: Any, new: Any) -> None:
        self._stream = stream
        self._encoder = new.codec_context
        self._is_flat = self._encoder.name in FLAT
        self._shown, self._finished = ShownTexts(stream.time_base), deque[Moment]()

    def set_end(self, packet: Any) -> None:
        """Give a packet the length that its text has in timed text, where it states none."""
        if self._is_flat:
            packet.duration = self._shown.find_length(packet.duration)

    def convert(self, packet: Any) -> Iterator[Packet[Any] | None]:
        """Packets made of one of the source; timed text comes later, by `take_begun`.

        None stands for a text that the format refuses, as one of more than 64 kB.
        """
        found = [*read_events(self._stream, packet)]
        if found and self._is_flat:
            self._finished += self._shown.take_before(packet.pts)
            self._shown.add(packet.pts, packet.duration, found)
        elif found:
            yield self._encode(packet.pts, packet.duration, found)

    def take_begun(self, seconds: float) -> Iterator[tuple[Fraction, Packet[Any] | None]]:
        """Timed text that began some time before a time, s, with its start, s; inf takes all."""
        base = self._stream.time_base
        if seconds == inf:
            self._finished += self._shown.take_before(inf)
        else:
            self._finished += self._shown.take_begun(round(seconds / base))
        while self._finished and self._finished[0][0] * base + _WAIT_S <= seconds:
            start, duration, texts = self._finished.popleft()
            yield start * base, self._encode(start, duration, [*texts.values()])

    def _encode(self, start: int, duration: int, found: Sequence[str]) -> Packet[Any] | None:
        try:
            new: Packet[Any] = Packet(self._encode_text(found))
        except FFmpegError as err:
            if memory_ran_out(err):
                raise
            logger.info("a text of stream %d is refused: %s", self._stream.index, err)
            return None
        new.pts = new.dts = start
        new.duration, new.time_base = duration, self._stream.time_base
        return new

    def _encode_text(self, found: Sequence[str]) -> bytes:
        *head, first = found[0].split(",", _TEXT)
        also = [event.split(",", _TEXT) for event in found[1:]]
        text = "".join([first, *(f"\\N{{\\r{one[_STYLE_NAME]}}}{one[-1]}" for one in also)])
        is_markup = self._encoder.name == "webvtt"
        safe = ",".join([*head, text.translate(_ENTITIES) if is_markup else text])
        return bytes(self._encoder.encode_subtitle(SubtitleSet.create(safe.encode(), 0, 1)))


def _usual_header() -> bytes:
    """The styles of ASS that FFmpeg gives to formats without any."""
    decoder: Any = CodecContext.create("subrip", "r")
    decoder.open()
    return bytes(decoder.subtitle_header)


def read_events(stream: Any, packet: Any) -> Iterator[str]:
    """Events of a packet that show a text, as ASS has them; none where it cannot be decoded."""
    try:
        found = stream.codec_context.decode2(packet)
    except FFmpegError as err:
        if memory_ran_out(err):
            raise
        return
    for one in found or ():
        event = _DRAWING.sub("", one.ass.decode("utf-8", "replace"))
        if stream.codec_context.name in STYLED:
            event = _COMMENT.sub("", event)
        if plain_text(event):
            yield event


def plain_text(event: str) -> str:
    """Words of an event, without styles, line breaks and signs that formats write differently."""
    text = _BREAK.sub(" ", _STYLE.sub("", event.split(",", _TEXT)[-1]))
    return " ".join(text.translate(_SIGNS).split())


def digest_of_texts(
    media: MediaInfo, index: int, control: Control, *, is_flat: bool
) -> StreamDigest:
    """Texts of a stream of subtitles, packet by packet, whatever its format.

    Args:
        media: The file.
        index: Index of the stream.
        control: Checked between packets.
        is_flat: Whether texts count that are shown at the same time, as in timed text.

    Raises:
        InputError: The file cannot be read.
        Cancelled: The user stopped.
    """
    with open_input(media.path, must_be_whole=False) as source, translated(media.path):
        stream = stream_at(media.path, source, index)
        base = stream.time_base or Fraction(1, 1000)
        found, shown = StreamDigest(index=index, time_base=base), ShownTexts(base)
        lengths = ShownLengths()

        def add_before(time: float) -> None:
            for start, length, texts in shown.take_before(time):
                found.add(" ".join(texts).encode(), start)
                found.lengths.append(length)

        for packet in readable_packets(media.path, source, [stream]):
            control.check()
            events = [*read_events(stream, packet)] if packet.size else []
            if events and is_flat and packet.pts is not None:
                add_before(packet.pts)
                shown.add(packet.pts, packet.duration, events)
            elif events:
                found.add(" ".join(map(plain_text, events)).encode(), packet.pts)
                lengths.add(stream, packet)
        add_before(inf)
        found.lengths = found.lengths or lengths.found
        return found
