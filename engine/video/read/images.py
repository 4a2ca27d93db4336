"""Decoding of single pictures and numbered sequences of them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import islice
from pathlib import Path

import av
from av.video.codeccontext import VideoCodecContext

from engine.core.errors import (
    InputError,
    ResultHeldBack,
    SourceMissing,
    SourceUnreadable,
    TruncatedMedia,
    UnreadableMedia,
    UnsupportedMedia,
)
from engine.core.file_access import RetryingFile, reading
from engine.core.messages import message
from engine.video.read.decoder import CHECKED, LOSSLESS, FrameDecoder
from engine.video.read.frames import PlanarFrame
from engine.video.read.heif import Heif, HeifCutShort, HeifDamaged, HeifUnknown
from engine.video.read.heif_frame import photograph
from engine.video.read.media_file import (
    MAX_SIDE,
    beginning_of,
    check_readable,
    check_size,
    translated,
)
from engine.video.read.picture_data import OS2_HEADER
from engine.video.read.picture_parts import is_camera_raw

SEQUENCE_RATE = Fraction(25)  # frames/s: FFmpeg's default for pictures without times
MAX_FILE_BYTES = 4 << 30
HEIF = ("heic", "avif")

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
    (0, b"\xff\x0a", "jpegxl"),
    (0, b"\x00\x00\x00\x0cJXL \r\n\x87\n", "jpegxl"),
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
    "jpegxl": {".jxl"},
}
_CANON_RAW = b"ftypcrx "  # CR3
_HEIF_BRANDS = {
    **dict.fromkeys((b"mif1", b"mif2", b"heic", b"heix", b"heim", b"heis"), "heic"),
    b"avif": "avif",
}
_NEVER_PICTURE = {".mjpg", ".mjpeg", ".mjp"}  # videos that begin like a JPEG
_SUFFIX_ONLY = {".tga": "targa", ".pcx": "pcx"}


def picture_codec(path: Path) -> str:
    """Decoder for a file that holds one picture; "" for anything else.

    FFmpeg's, but "heic" and "avif" for photographs in HEIF files. The content decides; the name
    only for formats without a mark. Animated images are videos.

    Raises:
        SourceMissing, SourceUnreadable, UnreadableMedia: Raised by `check_readable`.
        UnsupportedMedia: It is a raw photograph of a camera, or a kind that nothing here decodes.
    """
    check_readable(path)
    suffix = path.suffix.lower()
    if suffix in _NEVER_PICTURE:
        return ""
    with reading(path):
        header = beginning_of(path, 4096)
    if header[4:12] == _CANON_RAW:
        raise UnsupportedMedia("camera-raw", name=path.name, path=path)
    if photograph_kind := _photograph_kind(header):
        return photograph_kind
    for offset, mark, codec in _MAGIC:
        if header[offset : offset + len(mark)] == mark:
            if suffix not in _NEEDS_SUFFIX.get(codec, {suffix}):
                return ""
            if codec == "jpegxl":
                raise UnsupportedMedia("jpeg-xl", name=path.name, path=path)
            if codec == "webp" and _is_animated(header):
                raise UnsupportedMedia("animated-webp", name=path.name, path=path)
            return "" if codec == "png" and b"acTL" in header else codec
    return _SUFFIX_ONLY.get(suffix, "")


def _photograph_kind(header: bytes) -> str:
    """Kind of a HEIF file, "heic" or "avif"; "" for all else, sequences of images included."""
    if header[4:8] != b"ftyp":
        return ""
    kind = _HEIF_BRANDS.get(header[8:12], "")
    size = int.from_bytes(header[:4], "big")
    return "avif" if kind and b"avif" in header[16:size] else kind


def _is_animated(header: bytes) -> bool:
    return header[12:16] == b"VP8X" and any(flags & 2 for flags in header[20:21])


def read_picture(path: Path, codec: str = "") -> av.VideoFrame:
    """Decode one picture.

    Args:
        path: The file.
        codec: Result of `picture_codec`; "" calls it.

    Raises:
        InputError: Missing, unreadable, not a picture, damaged, or too large.

    Memory: the file and the picture.
    """
    codec = codec or picture_codec(path)
    if check_readable(path) > MAX_FILE_BYTES:
        raise UnsupportedMedia("picture-file-too-large", name=path.name, path=path)
    with translated(path):
        if not codec:
            raise av.error.InvalidDataError(-1, "not an image")
        with RetryingFile(path) as file:
            data = file.read_all()
        if codec in HEIF:
            frame = _read_heif(path, data)
        else:
            if codec == "tiff" and is_camera_raw(data):
                raise UnsupportedMedia("camera-raw", name=path.name, path=path)
            check_size(path, *_stated_size(data, codec))
            frame = _decoded(codec, b"", data)
    check_size(path, frame.width, frame.height)
    return frame


def _read_heif(path: Path, data: bytes) -> av.VideoFrame:
    """The photograph of a HEIF file.

    Raises:
        TruncatedMedia, UnreadableMedia: It is not all there, or damaged.
        UnsupportedMedia: It is too large, or coded in a way that is not read.
    """
    try:
        heif = Heif(lambda offset, count: data[offset : offset + count])
        size = heif.size()
        check_size(path, size.width, size.height)
        return photograph(heif, _decoded)
    except HeifUnknown as err:
        raise UnsupportedMedia(
            "photograph-coding", name=path.name, path=path, coding=err.coding
        ) from err
    except HeifCutShort as err:
        raise TruncatedMedia("end-missing", name=path.name, path=path) from err
    except HeifDamaged as err:
        raise UnreadableMedia("undecodable", name=path.name, path=path) from err


def _decoded(codec: str, extradata: bytes, data: bytes) -> av.VideoFrame:
    """The image in some data.

    Raises:
        av.error.FFmpegError: There is none that can be decoded.
    """
    context = _decoder(codec)
    if extradata:
        context.extradata = extradata
    frames = [*context.decode(av.Packet(data)), *context.decode(None)]
    if not frames:
        raise av.error.InvalidDataError(-1, "no image found")
    return frames[-1 if codec == "libdav1d" else 0]  # layers of AV1: the last is the finest


def _stated_size(data: bytes, codec: str) -> tuple[int, int]:
    """Width and height from the header of PNG, BMP and QOI; (1, 1) for other formats."""
    offset, order = {"png": (16, ">"), "bmp": (18, "<"), "qoi": (4, ">")}.get(codec, (0, ""))
    if not order or len(data) < offset + 8:
        return 1, 1
    if codec == "bmp" and data[14:18] == OS2_HEADER:
        width, height = struct.unpack_from("<HH", data, offset)
        return width, height
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

    def key_frames(self, places: Iterable[int]) -> Iterator[PlanarFrame]:
        """The images of these numbers, each of them once."""
        last = self._media.video.frame_count - 1
        for index in dict.fromkeys(min(place, last) for place in places):
            yield from islice(self.frames_before(index), 1)

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


# --- numbered pictures


_SUFFIXES_TEXT = """
    .png .jpg .jpeg .jpe .tif .tiff .webp .bmp .dib .exr .dpx .jp2 .j2k .jxl .qoi .psd .hdr .sgi
    .pgm .ppm .pnm .pam .pfm .tga .pcx .heic .heif .hif .avif
"""
_SUFFIXES = frozenset(_SUFFIXES_TEXT.split())
_PATTERN = re.compile(r"%%|%(?:0(\d{1,3}))?d")
_NUMBERED = re.compile(r"^(.*?)(\d+)(\D*\.\w+)$")  # the last number before the suffix


def find_sequence(path: Path) -> tuple[str, int, int] | None:
    """The numbered pictures of a pattern or a folder.

    Args:
        path: A name with %d or %04d in it that is no file itself, or a folder.

    Returns:
        Pattern (with its folder), first index, pictures without a gap; None for other paths.

    Raises:
        UnsupportedMedia: There are no numbered pictures.
    """
    if path.is_dir():
        return _sequence_in(path)
    if _parts_of(path.name) is None or path.exists():
        return None
    indices = numbers_of(str(path))
    if not indices:
        raise _no_pictures(path)
    return str(path), indices[0], _run_length(indices)


def sequence_file(pattern: str, number: int) -> Path:
    """One file of a sequence; only the number in the name is filled in, never in the folder.

    Raises:
        ValueError: The name has no %d in it.
    """
    path = Path(pattern)
    parts = _parts_of(path.name)
    if parts is None:
        raise ValueError(f"{pattern!r} is no pattern")
    start, width, end = parts
    return path.with_name(f"{start}{number:0{width}d}{end}")


def _parts_of(name: str) -> tuple[str, int, str] | None:
    """Text before the number, minimum width of the number, text after it; None for no pattern."""
    for match in _PATTERN.finditer(name):
        if match[0] != "%%":
            start, end = name[: match.start()], name[match.end() :]
            return start.replace("%%", "%"), int(match[1] or 0), end.replace("%%", "%")
    return None


def numbers_of(pattern: str) -> list[int]:
    """Indices of the files of a sequence, ascending."""
    path, found = Path(pattern), list[int]()
    parts = _parts_of(path.name)
    if parts is None or not path.parent.is_dir():
        return []
    start, _, end = parts
    for file in path.parent.iterdir():
        digits = file.name[len(start) : len(file.name) - len(end)]
        named = file.name.startswith(start) and file.name.endswith(end) and digits.isascii()
        if named and digits.isdigit() and sequence_file(pattern, int(digits)).name == file.name:
            found.append(int(digits))
    return sorted(found)


def _run_length(indices: list[int]) -> int:
    count = 1
    while count < len(indices) and indices[count] == indices[0] + count:
        count += 1
    return count


def _sequence_in(folder: Path) -> tuple[str, int, int]:
    """The longest numbered sequence in a folder, by name where two are equally long."""
    groups: dict[tuple[str, str, int], list[int]] = {}
    with reading(folder):
        names = sorted(file.name for file in folder.iterdir() if file.is_file())
    for name in names:
        match = _NUMBERED.match(name)
        if match and Path(name).suffix.lower() in _SUFFIXES:
            width = len(match[2]) if match[2].startswith("0") else 0
            groups.setdefault((match[1], match[3], width), []).append(int(match[2]))
    groups = _joined(groups)
    if not groups:
        raise _no_pictures(folder)
    (start, end, width), indices = max(groups.items(), key=lambda item: len(item[1]))
    digits = f"%0{width}d" if width else "%d"
    pattern = start.replace("%", "%%") + digits + end.replace("%", "%%")
    return str(folder / pattern), min(indices), _run_length(sorted(indices))


def _joined(
    groups: dict[tuple[str, str, int], list[int]],
) -> dict[tuple[str, str, int], list[int]]:
    """Joins 0998, 0999 and 1000, 1001: the same pattern with and without leading zeros."""
    for start, end, width in [key for key in groups if key[2]]:
        plain = groups.get((start, end, 0), [])
        same = [number for number in plain if len(str(number)) >= width]
        groups[start, end, width] += same
        if plain:
            groups[start, end, 0] = [number for number in plain if number not in set(same)]
    return {key: indices for key, indices in groups.items() if indices}


def _no_pictures(path: Path) -> InputError:
    if path.is_dir():
        name = path.resolve().name or str(path)  # a whole drive has no name
        return UnsupportedMedia("folder-without-pictures", name=name, path=path)
    return SourceMissing("no-such-pictures", name=path.name, path=path)
