"""Stills and numbered sequences of stills behind the same face as a film."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
from av.video.codeccontext import VideoCodecContext

from engine.errors import InputError, SourceMissing, UnsupportedMedia
from engine.media import MediaInfo
from engine.video.conform import Conformer
from engine.video.frames import PlanarFrame
from engine.video.opening import MAX_SIDE, check_readable, check_size, translated

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
_SUFFIXES_TEXT = """
    .png .jpg .jpeg .jpe .tif .tiff .webp .bmp .dib .exr .dpx .jp2 .j2k .jxl .qoi .psd .hdr .sgi
    .pgm .ppm .pnm .pam .pfm .tga .pcx
"""
PICTURE_SUFFIXES = frozenset(_SUFFIXES_TEXT.split())
_PATTERN = re.compile(r"%%|%(?:0(\d+))?d")
_NUMBERED = re.compile(r"^(.*?)(\d+)(\D*)$")


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


def find_sequence(path: Path) -> tuple[str, int, int] | None:
    """The numbered pictures that a name or a folder stands for.

    Args:
        path: A name with %d or %04d in it that is no file itself, or a folder.

    Returns:
        Pattern (with its folder), first number, how many follow without a gap; None when `path`
        is neither.

    Raises:
        UnsupportedMedia: There are no numbered pictures.
    """
    if path.is_dir():
        return _sequence_in(path)
    if _parts_of(path.name) is None or path.exists():
        return None
    numbers = _numbers_of(str(path))
    if not numbers:
        raise _no_pictures(path)
    return str(path), numbers[0], _run_length(numbers)


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
    """What stands before and behind the number, and its least width; None for no pattern."""
    for match in _PATTERN.finditer(name):
        if match[0] != "%%":
            start, end = name[: match.start()], name[match.end() :]
            return start.replace("%%", "%"), int(match[1] or 0), end.replace("%%", "%")
    return None


def _numbers_of(pattern: str) -> list[int]:
    """All numbers for which there is a file, rising."""
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


def _run_length(numbers: list[int]) -> int:
    count = 1
    while count < len(numbers) and numbers[count] == numbers[0] + count:
        count += 1
    return count


def _sequence_in(folder: Path) -> tuple[str, int, int]:
    """The longest numbered sequence in a folder, by name where two are equally long."""
    groups: dict[tuple[str, str, int], list[int]] = {}
    try:
        names = sorted(file.name for file in folder.iterdir() if file.is_file())
    except OSError as err:
        with translated(folder):
            raise err
    for name in names:
        match = _NUMBERED.match(name)
        if match and Path(name).suffix.lower() in PICTURE_SUFFIXES:
            width = len(match[2]) if match[2].startswith("0") else 0
            groups.setdefault((match[1], match[3], width), []).append(int(match[2]))
    groups = _joined(groups)
    if not groups:
        raise _no_pictures(folder)
    (start, end, width), numbers = max(groups.items(), key=lambda item: len(item[1]))
    digits = f"%0{width}d" if width else "%d"
    pattern = start.replace("%", "%%") + digits + end.replace("%", "%%")
    return str(folder / pattern), min(numbers), _run_length(sorted(numbers))


def _joined(
    groups: dict[tuple[str, str, int], list[int]],
) -> dict[tuple[str, str, int], list[int]]:
    """Puts 0998, 0999 and 1000, 1001 together: the same pattern, with and without zeros."""
    for start, end, width in [key for key in groups if key[2]]:
        plain = groups.get((start, end, 0), [])
        same = [number for number in plain if len(str(number)) >= width]
        groups[start, end, width] += same
        if plain:
            groups[start, end, 0] = [number for number in plain if number not in set(same)]
    return {key: numbers for key, numbers in groups.items() if numbers}


def _no_pictures(path: Path) -> InputError:
    if path.is_dir():
        return UnsupportedMedia(
            f"{path.name} is a folder without numbered pictures.",
            hint="Choose a video, or a folder with pictures such as shot_0001.png.",
            path=path,
        )
    return SourceMissing(
        f"There are no pictures named like {path.name}.", hint="Check the name.", path=path
    )


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
        left_out = sum(number >= end for number in _numbers_of(self._media.pattern))
        if left_out:
            name = sequence_file(self._media.pattern, end).name
            self.problems.append(f"{name} is missing; pictures left out behind it: {left_out}.")

    def _file(self, index: int) -> Path:
        if self._media.kind == "image":
            return self._media.path
        return sequence_file(self._media.pattern, self._media.first_number + index)
