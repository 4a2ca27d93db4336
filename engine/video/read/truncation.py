"""Whether the end of a file is missing, from the sizes that its container states."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

_MP4_BOXES = frozenset(
    (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"moof", b"sidx", b"styp", b"uuid")
)
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"


def is_cut_short(path: Path) -> bool:
    """True when a container says that it is longer than the file.

    Knows MP4 and MOV (top-level boxes), Matroska and WebM (a segment of known size), AVI, WAV and
    WebP (RIFF), PNG and JPEG (end marks). Everything else, and a file that cannot be read, counts
    as whole. Reads a few bytes of each top-level part.
    """
    try:
        with path.open("rb") as file:
            length = os.fstat(file.fileno()).st_size
            head = file.read(12)
            file.seek(0)
            if head[4:8] in _MP4_BOXES:
                return _mp4_cut(file, length)
            if head[:4] == _EBML:
                return _matroska_cut(file, length)
            if head[:4] == b"RIFF":
                return int.from_bytes(head[4:8], "little") + 8 > length + 1
            if head[:4] == b"\x89PNG" or head[:3] == b"\xff\xd8\xff":
                return _end_missing(file, length, head)
    except OSError:
        return False
    return False


def _mp4_cut(file: BinaryIO, length: int) -> bool:
    at, seen = 0, set[bytes]()
    while at + 8 <= length:
        file.seek(at)
        head = file.read(16)
        size, kind = int.from_bytes(head[:4], "big"), head[4:8]
        if size == 1:
            size = int.from_bytes(head[8:16], "big")
        if size == 0:
            size = length - at  # reaches to the end
        if size < 8 or (not seen and kind not in _MP4_BOXES):
            return False  # no such file after all
        seen.add(kind)
        at += size
    return at > length or (b"mdat" in seen and b"moov" not in seen)


def _matroska_cut(file: BinaryIO, length: int) -> bool:
    at = 0
    for _ in range(8):  # the header, perhaps padding, then the segment
        file.seek(at)
        head = file.read(12)
        if len(head) < 5:
            return False
        size, width = _variable_size(head[4:])
        if head[:4] == _SEGMENT:
            return size is not None and at + 4 + width + size > length
        if head[:4] != _EBML or size is None:
            return False
        at += 4 + width + size
    return False


def _variable_size(data: bytes) -> tuple[int | None, int]:
    """A size as EBML writes it, None when unknown, and how many bytes it took."""
    width = next((n for n in range(1, 9) if data[0] >> (8 - n) & 1), 0)
    if width == 0 or len(data) < width:
        return None, 1
    value = int.from_bytes(data[:width], "big") & ((1 << 7 * width) - 1)
    return (None if value == (1 << 7 * width) - 1 else value), width


def _end_missing(file: BinaryIO, length: int, head: bytes) -> bool:
    file.seek(max(0, length - 4096))
    tail = file.read(4096)
    return b"IEND" not in tail if head[:4] == b"\x89PNG" else b"\xff\xd9" not in tail
