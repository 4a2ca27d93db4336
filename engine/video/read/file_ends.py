"""Whether the end of a file is missing, by what its container states: never by a guess."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO, Protocol

_MP4_BOXES = frozenset(
    (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"moof", b"sidx", b"styp", b"uuid")
)
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_UNKNOWN_SIZE = 0xFFFFFFFF  # of a RIFF file that was written to a pipe
_LAST = 4096  # bytes, where the end mark usually is
_PART = 1 << 20  # bytes that are searched at once
_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")  # within the pixels of a JPEG: their end


class Readable(Protocol):
    """A binary file, at any place."""

    def read(self, count: int, /) -> bytes:
        """The next bytes; fewer at the end."""
        ...

    def seek(self, offset: int, /) -> int:
        """Go to a place."""
        ...


def is_truncated(path: Path) -> bool:
    """True when a container states that it is longer than the file.

    Knows MP4, MOV and HEIF (top-level boxes), Matroska and WebM (a segment of known size), AVI, WAV
    and WebP (RIFF), PNG and JPEG (end marks, whatever follows them). Everything else, and a file
    that cannot be read, counts as whole. Reads a few bytes of each top-level part; all of a JPEG
    that does not end with its end mark.
    """
    try:
        with path.open("rb") as file:
            length = os.fstat(file.fileno()).st_size
            header = file.read(12)
            if header[4:8] in _MP4_BOXES:
                return _is_mp4_truncated(file, length)
            if header[:4] == _EBML:
                return _is_matroska_truncated(file, length)
            if header[:4] == b"RIFF":
                return _is_riff_truncated(file, length)
            if header[:8] == _PNG:
                return not _ends_with(file, length, b"IEND") and png_end(file) is None
            if header[:3] == _JPEG:
                return not _ends_with(file, length, b"\xff\xd9") and jpeg_end(file) is None
    except OSError:
        return False
    return False


def _ends_with(file: BinaryIO, length: int, mark: bytes) -> bool:
    file.seek(max(0, length - _LAST))
    return mark in file.read(_LAST)


def png_end(file: Readable) -> int | None:
    """Bytes up to the end of a PNG, without what follows it; None where the end is missing."""
    at = len(_PNG)
    while True:
        file.seek(at)
        head = file.read(8)
        if len(head) < 8:
            return None
        at += 12 + int.from_bytes(head[:4], "big")
        if head[4:] == b"IEND":
            return at


def jpeg_end(file: Readable) -> int | None:
    """Bytes up to the end of a JPEG, without what follows it; None where the end is missing.

    Small images and videos follow the photograph of many phones.
    """
    at = 2
    while True:
        file.seek(at)
        head = file.read(4)
        if len(head) < 2 or head[0] != 0xFF:
            return None
        if head[1] == 0xD9:
            return at + 2
        if head[1] == 0xFF:  # filler
            at += 1
            continue
        at += 2 + int.from_bytes(head[2:], "big")
        if head[1] == 0xDA:
            found = _marker_after(file, at)
            if found is None:
                return None
            at = found


def _marker_after(file: Readable, at: int) -> int | None:
    """The next place of a JPEG's marker that ends pixels; None where there is none."""
    while True:
        file.seek(at)
        part = file.read(_PART)
        found = _MARKER.search(part)
        if found is not None:
            return at + found.start()
        if len(part) < _PART:
            return None
        at += _PART - 1


def _is_riff_truncated(file: BinaryIO, length: int) -> bool:
    """Large AVI files have several RIFF parts in succession."""
    at = 0
    while at + 8 <= length:
        file.seek(at)
        header = file.read(8)
        size = int.from_bytes(header[4:], "little")
        if header[:4] != b"RIFF" or size == _UNKNOWN_SIZE:
            return False
        at += 8 + size + size % 2
    return at > length + 1


def _is_mp4_truncated(file: BinaryIO, length: int) -> bool:
    """A box beyond the end, or samples without any index.

    The index of a photograph (HEIF) is its box "meta"; a segment of a stream has one in "moof", and
    lacks its beginning, not its end. Whatever follows a whole video does not count.
    """
    at, seen = 0, set[bytes]()
    while at + 8 <= length:
        file.seek(at)
        header = file.read(16)
        size, kind = int.from_bytes(header[:4], "big"), header[4:8]
        if size == 1:
            size = int.from_bytes(header[8:16], "big")
        if size == 0:
            size = length - at  # reaches to the end
        if size < 8 or (not seen and kind not in _MP4_BOXES):
            break  # no MP4 after all, or other data after it
        if at + size > length:
            is_whole = {b"moov", b"mdat"} <= seen and kind not in _MP4_BOXES
            return not is_whole
        seen.add(kind)
        at += size
    return b"mdat" in seen and not seen & {b"moov", b"moof", b"meta"}


def _is_matroska_truncated(file: BinaryIO, length: int) -> bool:
    at = 0
    for _ in range(8):  # the header, perhaps padding, then the segment
        file.seek(at)
        header = file.read(12)
        if len(header) < 5:
            return False
        size, width = _variable_size(header[4:])
        if header[:4] == _SEGMENT:
            return size is not None and at + 4 + width + size > length
        if header[:4] != _EBML or size is None:
            return False
        at += 4 + width + size
    return False


def _variable_size(data: bytes) -> tuple[int | None, int]:
    """A size in EBML's variable length, None when unknown, and the bytes it takes."""
    width = next((n for n in range(1, 9) if data[0] >> (8 - n) & 1), 0)
    if width == 0 or len(data) < width:
        return None, 1
    value = int.from_bytes(data[:width], "big") & ((1 << 7 * width) - 1)
    return (None if value == (1 << 7 * width) - 1 else value), width
