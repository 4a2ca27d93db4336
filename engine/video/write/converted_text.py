"""Subtitles of text that a container cannot hold: written in its own format, and read to compare.

FFmpeg's decoders give every format as events of ASS, of which its encoders write the text with
italic, bold and underlined parts. Fonts, colours and positions of ASS have no place there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from av.codec import CodecContext
from av.container import OutputContainer
from av.error import FFmpegError
from av.packet import Packet
from av.subtitles.subtitle import SubtitleSet

from engine.core.control import Control
from engine.core.errors import memory_ran_out
from engine.protocol.media import MediaInfo
from engine.video.read.digest import StreamDigest
from engine.video.read.media_file import open_input, readable_packets, stream_at, translated
from engine.video.write.containers import STYLED

_TEXT = 8  # number of commas before the text of an event
_DRAWING = re.compile(r"\{[^}]*\\p[1-9][^}]*\}[^{]*")
_COMMENT = re.compile(r"\{[^\\}]*\}")  # of ASS; elsewhere braces are text
_STYLE = re.compile(r"\{\\[^}]*\}")
_BREAK = re.compile(r"\\[Nnh]|\s")
_SIGNS = str.maketrans("", "", "{}\\\u2060")  # which formats write in ways of their own
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def text_stream(output: OutputContainer, stream: Any, codec: str) -> Any:
    """Add the stream of converted subtitles to a file.

    Args:
        output: To write.
        stream: Stream of the source.
        codec: Format of the result, as `Container.text`.
    """
    new: Any = output.add_mux_stream(codec, time_base=stream.time_base)
    new.disposition = int(stream.disposition)
    return new


class TextConverter:
    """Packets of subtitles in another format, one for each packet of the source with a text.

    Args:
        stream: Stream of the source.
        codec: Format of the result.
    """

    def __init__(self, stream: Any, codec: str) -> None:
        self._stream = stream
        self._encoder: Any = CodecContext.create(codec, "w")

    def converted(self, packet: Any) -> Packet[Any] | None:
        """The packet at the same time in the other format; None without a text."""
        found = b"\n".join(map(self._encoded, events(self._stream, packet)))
        if not found:
            return None
        new = Packet(found)
        new.pts, new.dts, new.duration = packet.pts, packet.dts, packet.duration
        new.time_base = packet.time_base
        return new

    def _encoded(self, event: str) -> bytes:
        if self._encoder.subtitle_header is None:  # known as soon as a packet was decoded
            known = self._stream.codec_context.subtitle_header
            self._encoder.subtitle_header = known or _usual_header()
        *head, text = event.split(",", _TEXT)
        is_markup = self._encoder.name == "webvtt"
        safe = ",".join([*head, text.translate(_ENTITIES) if is_markup else text])
        return bytes(self._encoder.encode_subtitle(SubtitleSet.create(safe.encode(), 0, 1)))


def _usual_header() -> bytes:
    """The styles of ASS that FFmpeg gives to formats without any."""
    decoder: Any = CodecContext.create("subrip", "r")
    decoder.open()
    return bytes(decoder.subtitle_header)


def events(stream: Any, packet: Any) -> Iterator[str]:
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


def digest_of_texts(media: MediaInfo, index: int, control: Control) -> StreamDigest:
    """Texts of a stream of subtitles, packet by packet, whatever its format.

    Raises:
        InputError: The file cannot be read.
        Cancelled: The user stopped.
    """
    with open_input(media.path, must_be_whole=False) as source, translated(media.path):
        stream = stream_at(media.path, source, index)
        base = stream.time_base or Fraction(1, 1000)
        found = StreamDigest(index=index, time_base=base)
        for packet in readable_packets(media.path, source, [stream]):
            control.check()
            texts = [plain_text(event) for event in events(stream, packet)] if packet.size else []
            if texts:
                found.add(" ".join(texts).encode(), packet.pts)
        return found
