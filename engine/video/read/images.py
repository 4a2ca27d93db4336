"""Stills and numbered sequences of stills behind the same face as a film."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
from av.video.codeccontext import VideoCodecContext

from engine.core.errors import InputError, UnsupportedMedia
from engine.protocol.media import MediaInfo
from engine.video.read.conform import Conformer
from engine.video.read.frames import PlanarFrame
from engine.video.read.opening import (
    MAX_SIDE,
    check_readable,
    check_size,
    translated,
)
from engine.video.read.sequences import numbers_of, sequence_file

SEQUENCE_RATE = Fraction(25)  # frames/s: what FFmpeg takes for pictures without times
MAX_FILE_BYTES = 4 << 30

_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "png"),
    (0, b"\xff\xd8\xff", "mjpeg"),
    (0, b"II*\x00", "tiff"),
    (0, b"MM\x00*", "tiff"),
    (8, b"WEBP", "webp"),
    (0, b"BM", "bmp"),
    (0, b"v/1\x01", "exr"),
    (0, b"SDPX", "dpx"),
    (0, b"XPDS", "dpx"),
    (0, b"\x00\x00\x00\x0cjP  \r\n\x87\n", "jpeg2000"),
    (0, b"\xff\x4f\xff\x51", "jpeg2000"),
    (0, b"\xff\x0a", "libjxl"),
    (0, b"\x00\x00\x00\x0cJXL \r\n\x87\n", "libjxl"),
    (0, b"qoif", "qoi"),
    (0, b"8BPS", "psd"),
    (0, b"#?RADIANCE", "hdr"),
    (0, b"\x01\xda", "sgi"),
    (0, b"P5", "pgm"),
    (0, b"P6", "ppm"),
    (0, b"P7", "pam"),
    (0, b"PF\n", "pfm"),
)
# Words that only mean a picture together with the ending of the name.
_NEEDS_SUFFIX = {
    "bmp": {".bmp", ".dib"},
    "sgi": {".sgi", ".rgb", ".rgba", ".bw"},
    "pgm": {".pgm", ".pnm"},
    "ppm": {".ppm", ".pnm"},
    "pam": {".pam"},
    "pfm": {".pfm"},
    "libjxl": {".jxl"},
}
_NEVER_PICTURE = {".mjpg", ".mjpeg", ".mjp"}  # films that begin like a JPEG
_SUFFIX_ONLY = {".tga": "targa", ".pcx": "pcx"}


def picture_codec(path: Path) -> str:
    """FFmpeg's decoder for a file that holds one picture; "" for anything else.

    The content decides, not the name, but for formats without a mark of their own. Animated PNG,
    WebP and GIF are films.

    Raises:
        SourceMissing, SourceUnreadable, UnreadableMedia: As `check_readable`.
    """
    check_readable(path)
    suffix = path.suffix.lower()
    if suffix in _NEVER_PICTURE:
        return ""
    with path.open("rb") as file:
        head = file.read(4096)
    for offset, mark, codec in _MAGIC:
        if head[offset : offset + len(mark)] == mark:
            wanted = _NEEDS_SUFFIX.get(codec)
            is_film = (codec == "png" and b"acTL" in head) or (codec == "webp" and _moves(head))
            return codec if not is_film and (wanted is None or suffix in wanted) else ""
    return _SUFFIX_ONLY.get(suffix, "")


def _moves(head: bytes) -> bool:
    return head[12:16] == b"VP8X" and bool(head[20] & 2)


def read_picture(path: Path, codec: str = "") -> av.VideoFrame:
    """Decode one picture.

    Args:
        path: The file.
        codec: As `picture_codec` says; "" asks it.

    Raises:
        InputError: Missing, unreadable, not a picture, damaged, or too large.

    Memory: the file and the picture.
    """
    codec = codec or picture_codec(path)
    if check_readable(path) > MAX_FILE_BYTES:
        raise UnsupportedMedia(
            f"{path.name} is too large for a picture.", hint="Choose a smaller one.", path=path
        )
    with translated(path):
        if not codec:
            raise av.error.InvalidDataError(-1, "not a picture")
        data = path.read_bytes()
        check_size(path, *_stated_size(data, codec))
        context = _decoder(codec)
        frames = [*context.decode(av.Packet(data)), *context.decode(None)]
        if not frames:
            raise av.error.InvalidDataError(-1, "no picture inside")
    check_size(path, frames[0].width, frames[0].height)
    return frames[0]


def _stated_size(data: bytes, codec: str) -> tuple[int, int]:
    """Width and height from a header where they are easy to find; (1, 1) elsewhere."""
    offset, order = {"png": (16, ">"), "bmp": (18, "<"), "qoi": (4, ">")}.get(codec, (0, ""))
    if not order or len(data) < offset + 8:
        return 1, 1
    width, height = struct.unpack_from(order + "ii", data, offset)
    return abs(width), abs(height)  # a BMP from top to bottom has a negative height


def _decoder(codec: str) -> VideoCodecContext:
    context = av.CodecContext.create(codec, "r")
    if not isinstance(context, VideoCodecContext):
        raise av.error.DecoderNotFoundError(-1, codec)
    context.options = {"max_pixels": str(MAX_SIDE * MAX_SIDE)}
    context.thread_count = 1
    return context


class PictureSource:
    """Frames of a still or a sequence; each file is opened, decoded and closed.

    Memory: one picture.
    """

    def __init__(self, media: MediaInfo) -> None:
        self._media = media
        self._conform = Conformer(media.video)
        self.problems: list[str] = []

    def close(self) -> None:
        """Nothing stays open between two pictures."""

    def frames(self) -> Iterator[PlanarFrame]:
        """All pictures; unreadable ones are left out and told in `problems`."""
        return self.frames_before(0)

    def frames_before(self, pts: int) -> Iterator[PlanarFrame]:
        """Pictures from number `pts` on, at least the last one."""
        count = self._media.video.frame_count
        for index in range(max(0, min(pts, count - 1)), count):
            try:
                frame = read_picture(self._file(index))
            except InputError as err:
                if self._media.kind == "image":
                    raise
                self.problems.append(err.message)
                continue
            planes = self._conform(frame)
            yield PlanarFrame(planes=planes, pts=index, duration=1)
        self.problems += [p for p in self._conform.problems if p not in self.problems]
        if self._media.kind == "sequence":
            self._tell_gap()
        elif self._media.is_cut_short:
            self.problems.append("The end of the file is missing; the lower part may look wrong.")

    def _tell_gap(self) -> None:
        end = self._media.first_number + self._media.video.frame_count
        left_out = sum(number >= end for number in numbers_of(self._media.pattern))
        if left_out:
            name = sequence_file(self._media.pattern, end).name
            self.problems.append(f"{name} is missing; pictures left out behind it: {left_out}.")

    def _file(self, index: int) -> Path:
        if self._media.kind == "image":
            return self._media.path
        return sequence_file(self._media.pattern, self._media.first_number + index)
