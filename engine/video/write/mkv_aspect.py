"""Sample aspect ratio of a finished MKV: written into the file afterwards.

PyAV cannot pass it to FFmpeg's Matroska muxer, and AV1, ProRes and FFV1 cannot hold it.
A display matrix makes the muxer write an element of 14 bytes (`PLACEHOLDER`); in the finished file
the display size takes its place, and nothing else moves.
"""

from __future__ import annotations

import zlib
from fractions import Fraction
from pathlib import Path

from engine.core.errors import OutputError
from engine.core.geometry import Size
from engine.video.read.ebml import SEGMENT, TRACKS, EbmlElement, children

PLACEHOLDER = [-65536, 0, 0, 0, -65536, 0, 0, 0, 1 << 30]  # rotation by 180 degrees

_ENTRY, _VIDEO = 0xAE, 0xE0
_PROJECTION, _WIDTH, _HEIGHT, _UNIT, _VOID, _CRC = 0x7670, 0x54B0, 0x54BA, 0x54B2, 0xEC, 0xBF
_HEADER_BYTES = 16 << 20  # tracks come early; their headers are small


def states_aspect(codec: str) -> bool:
    """Whether the stream itself states its sample aspect ratio."""
    return codec in ("h264", "hevc")


def display_size(size: Size, aspect: Fraction) -> Size:
    """Width and height with exactly the display aspect ratio, about as high as the picture."""
    display = aspect * Fraction(size.width, size.height)
    times = max(1, round(size.height / display.denominator))
    while max(display.numerator, display.denominator) * times > 65535 and times > 1:
        times //= 2
    return Size(min(65535, display.numerator * times), min(65535, display.denominator * times))


def write_aspect(path: Path, size: Size, aspect: Fraction) -> None:
    """Replace the placeholder by the display size.

    Args:
        path: A closed MKV whose film was written with `PLACEHOLDER` as its display matrix.
        size: Of the picture, px.
        aspect: Width of a pixel over its height.

    Raises:
        OutputError: There is no placeholder.
    """
    with path.open("r+b") as file:
        header = bytearray(file.read(_HEADER_BYTES))
        tracks, room, unit = _find(header, path)
        header[unit.start : unit.end] = _void(unit.end - unit.start)
        header[room.start : room.end] = _replacement(display_size(size, aspect), room)
        _renew_checksum(header, tracks)
        file.seek(tracks.start)
        file.write(header[tracks.start : tracks.end])


def _find(header: bytearray, path: Path) -> tuple[EbmlElement, EbmlElement, EbmlElement]:
    """All tracks, the placeholder, and the element by which the muxer states an unknown unit."""
    for segment in children(header, 0, len(header), SEGMENT):
        for tracks in children(header, segment.content, segment.end, TRACKS):
            for entry in children(header, tracks.content, tracks.end, _ENTRY):
                for video in children(header, entry.content, entry.end, _VIDEO):
                    inside = (header, video.content, video.end)
                    room = next(children(*inside, _PROJECTION), None)
                    unit = next(children(*inside, _UNIT), None)
                    if room is not None and unit is not None:
                        return tracks, room, unit
    raise OutputError("no-aspect", name=path.name, path=path)


def _replacement(size: Size, room: EbmlElement) -> bytes:
    sides = b"".join(
        name.to_bytes(2, "big") + b"\x82" + value.to_bytes(2, "big")
        for name, value in ((_WIDTH, size.width), (_HEIGHT, size.height))
    )
    return sides + _void(room.end - room.start - len(sides))


def _void(length: int) -> bytes:
    """An empty element of `length` bytes."""
    return bytes([_VOID, 0x80 | (length - 2)]) + bytes(length - 2)


def _renew_checksum(header: bytearray, tracks: EbmlElement) -> None:
    for crc in children(header, tracks.content, tracks.content + 6, _CRC):
        value = zlib.crc32(header[crc.end : tracks.end])
        header[crc.content : crc.end] = value.to_bytes(4, "little")
