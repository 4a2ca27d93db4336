"""Writes the shape of the pixels into a finished MKV.

PyAV cannot tell FFmpeg's Matroska muxer about it, and AV1, ProRes and FFV1 have no other place for
it. A display matrix makes the muxer write an element of 14 bytes (`PLACEHOLDER`); in the finished
file the display size takes its place, with nothing else moved.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from engine.core.errors import OutputError
from engine.core.geometry import Size

PLACEHOLDER = [-65536, 0, 0, 0, -65536, 0, 0, 0, 1 << 30]  # half a turn

_SEGMENT, _TRACKS, _ENTRY, _VIDEO = 0x18538067, 0x1654AE6B, 0xAE, 0xE0
_PROJECTION, _WIDTH, _HEIGHT, _UNIT, _VOID, _CRC = 0x7670, 0x54B0, 0x54BA, 0x54B2, 0xEC, 0xBF
_HEAD_BYTES = 16 << 20  # tracks come early; their headers are small


@dataclass(frozen=True, slots=True)
class _Element:
    """One EBML element: its name, where it starts, and where its content starts and ends."""

    name: int
    start: int
    content: int
    end: int


def has_own_shape(codec: str) -> bool:
    """Whether the stream itself says the shape of its pixels."""
    return codec in ("h264", "hevc")


def display_size(size: Size, aspect: Fraction) -> Size:
    """Width and height of exactly the seen shape, about as high as the picture."""
    shape = aspect * Fraction(size.width, size.height)
    times = max(1, round(size.height / shape.denominator))
    while max(shape.numerator, shape.denominator) * times > 65535 and times > 1:
        times //= 2
    return Size(min(65535, shape.numerator * times), min(65535, shape.denominator * times))


def write_shape(path: Path, size: Size, aspect: Fraction) -> None:
    """Put the display size where the placeholder is.

    Args:
        path: A closed MKV whose film was written with `PLACEHOLDER` as its display matrix.
        size: Of the picture, px.
        aspect: Width of a pixel over its height.

    Raises:
        OutputError: There is no placeholder: the file was not written as expected.
    """
    with path.open("r+b") as file:
        head = bytearray(file.read(_HEAD_BYTES))
        tracks, room, unit = _find(head, path)
        head[unit.start : unit.end] = _void(unit.end - unit.start)
        head[room.start : room.end] = _replacement(display_size(size, aspect), room)
        _renew_checksum(head, tracks)
        file.seek(tracks.start)
        file.write(head[tracks.start : tracks.end])


def _find(head: bytearray, path: Path) -> tuple[_Element, _Element, _Element]:
    """All tracks, the placeholder, and the "unknown" that the muxer says instead of a shape."""
    for segment in _children(head, 0, len(head), _SEGMENT):
        for tracks in _children(head, segment.content, segment.end, _TRACKS):
            for entry in _children(head, tracks.content, tracks.end, _ENTRY):
                for video in _children(head, entry.content, entry.end, _VIDEO):
                    inside = (head, video.content, video.end)
                    room = next(_children(*inside, _PROJECTION), None)
                    unit = next(_children(*inside, _UNIT), None)
                    if room is not None and unit is not None:
                        return tracks, room, unit
    raise OutputError(f"The shape of the pixels could not be written into {path.name}.")


def _children(head: bytearray, start: int, end: int, name: int) -> Iterator[_Element]:
    at = start
    while at < end - 1:
        found, after = _number(head, at, keep_marker=True)
        size, content = _number(head, after, keep_marker=False)
        is_unknown = size == (1 << 7 * (content - after)) - 1
        stop = len(head) if is_unknown else min(content + size, len(head))
        if found == name:
            yield _Element(found, at, content, stop)
        at = stop


def _number(head: bytearray, at: int, *, keep_marker: bool) -> tuple[int, int]:
    """A number of variable length, and where the next byte is."""
    length = 9 - head[at].bit_length() if head[at] else 8
    value = int.from_bytes(head[at : at + length], "big")
    return (value if keep_marker else value & ((1 << 7 * length) - 1)), at + length


def _replacement(size: Size, room: _Element) -> bytes:
    shape = b"".join(
        name.to_bytes(2, "big") + b"\x82" + value.to_bytes(2, "big")
        for name, value in ((_WIDTH, size.width), (_HEIGHT, size.height))
    )
    return shape + _void(room.end - room.start - len(shape))


def _void(length: int) -> bytes:
    """An element of `length` bytes that says nothing."""
    return bytes([_VOID, 0x80 | (length - 2)]) + bytes(length - 2)


def _renew_checksum(head: bytearray, tracks: _Element) -> None:
    for crc in _children(head, tracks.content, tracks.content + 6, _CRC):
        value = zlib.crc32(head[crc.end : tracks.end])
        head[crc.content : crc.end] = value.to_bytes(4, "little")
