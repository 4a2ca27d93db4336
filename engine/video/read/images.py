"""Decoding of single pictures and numbered sequences of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
from av.video.codeccontext import VideoCodecContext

from engine.core.errors import (
    InputError,
    ResultHeldBack,
    SourceMissing,
    SourceUnreadable,
    UnsupportedMedia,
)
from engine.core.messages import message
from engine.core.retrying_file import RetryingFile
from engine.core.system_errors import reading
from engine.video.read.decoder import CHECKED, LOSSLESS, FrameDecoder
from engine.video.read.frames import PlanarFrame
from engine.video.read.media_file import (
    MAX_SIDE,
    beginning_of,
    check_readable,
    check_size,
    translated,
)
from engine.video.read.sequences import numbers_of, sequence_file

SEQUENCE_RATE = Fraction(25)  # frames/s: FFmpeg's default for pictures without times
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
# Marks that only mean a picture together with the suffix of the name.
_NEEDS_SUFFIX = {
    "bmp": {".bmp", ".dib"},
    "sgi": {".sgi", ".rgb", ".rgba", ".bw"},
    "pgm": {".pgm", ".pnm"},
    "ppm": {".ppm", ".pnm"},
    "pam": {".pam"},
    "pfm": {".pfm"},
    "libjxl": {".jxl"},
}
_NEVER_PICTURE = {".mjpg", ".mjpeg", ".mjp"}  # videos that begin like a JPEG
_SUFFIX_ONLY = {".tga": "targa", ".pcx": "pcx"}


def picture_codec(path: Path) -> str:
    """FFmpeg's decoder for a file that holds one picture; "" for anything else.

    The content decides; the name only for formats without a mark. Animated images are videos.

    Raises:
        SourceMissing, SourceUnreadable, UnreadableMedia: As `check_readable`.
    """
    check_readable(path)
    suffix = path.suffix.lower()
    if suffix in _NEVER_PICTURE:
        return ""
    with reading(path):
        header = beginning_of(path, 4096)
    for offset, mark, codec in _MAGIC:
        if header[offset : offset + len(mark)] == mark:
            suffixes = _NEEDS_SUFFIX.get(codec)
            is_video = (codec == "png" and b"acTL" in header) or (
                codec == "webp" and _is_animated(header)
            )
            return codec if not is_video and (suffixes is None or suffix in suffixes) else ""
    return _SUFFIX_ONLY.get(suffix, "")


def _is_animated(header: bytes) -> bool:
    return header[12:16] == b"VP8X" and bool(header[20] & 2)


def read_picture(path: Path, codec: str = "") -> av.VideoFrame:
    """Decode one picture.

    Args:
        path: The file.
        codec: From `picture_codec`; "" calls it.

    Raises:
        InputError: Missing, unreadable, not a picture, damaged, or too large.

    Memory: the file and the picture.
    """
    codec = codec or picture_codec(path)
    if check_readable(path) > MAX_FILE_BYTES:
        raise UnsupportedMedia("picture-file-too-large", name=path.name, path=path)
    with translated(path):
        if not codec:
            raise av.error.InvalidDataError(-1, "not a picture")
        with RetryingFile(path) as file:
            data = file.read_all()
        check_size(path, *_stated_size(data, codec))
        context = _decoder(codec)
        frames = [*context.decode(av.Packet(data)), *context.decode(None)]
        if not frames:
            raise av.error.InvalidDataError(-1, "no picture inside")
    check_size(path, frames[0].width, frames[0].height)
    return frames[0]


def _stated_size(data: bytes, codec: str) -> tuple[int, int]:
    """Width and height from the header of PNG, BMP and QOI; (1, 1) for other formats."""
    offset, order = {"png": (16, ">"), "bmp": (18, "<"), "qoi": (4, ">")}.get(codec, (0, ""))
    if not order or len(data) < offset + 8:
        return 1, 1
    width, height = struct.unpack_from(order + "ii", data, offset)
    return abs(width), abs(height)  # a BMP from top to bottom has a negative height


def _decoder(codec: str) -> VideoCodecContext:
    context = av.CodecContext.create(codec, "r")
    if not isinstance(context, VideoCodecContext):
        raise av.error.DecoderNotFoundError(-1, codec)
    context.options = {
        "max_pixels": str(MAX_SIDE * MAX_SIDE),
        **(CHECKED if codec in LOSSLESS else {}),
    }
    context.thread_count = 1
    return context


class ImageDecoder(FrameDecoder):
    """Frames of a picture or a sequence; each file is opened, decoded and closed."""

    def frames(self) -> Iterator[PlanarFrame]:
        """All pictures; damaged ones are left out and added to `problems`.

        Raises:
            ResultHeldBack: One is missing or cannot be read, and the sequence must be whole.
        """
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
                problem = err.as_message
                if isinstance(err, SourceMissing | SourceUnreadable):
                    self._fall_short(ResultHeldBack("picture-lost", problem=problem), problem)
                self.report(problem)
                continue
            yield PlanarFrame(planes=self._planes(frame), pts=index, duration=1)
        if self._media.kind == "sequence":
            self._report_gap()
        elif self._media.is_cut_short:
            self.report(message("reading.picture-incomplete"))

    def _report_gap(self) -> None:
        end = self._media.first_number + self._media.video.frame_count
        left_out = sum(number >= end for number in numbers_of(self._media.pattern))
        if left_out:
            name = sequence_file(self._media.pattern, end).name
            self.report(message("reading.number-missing", name=name, count=left_out))

    def _file(self, index: int) -> Path:
        if self._media.kind == "image":
            return self._media.path
        return sequence_file(self._media.pattern, self._media.first_number + index)
