"""Elements of EBML, the format of Matroska and WebM (RFC 8794), in bytes that were read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SEGMENT, CLUSTER, TRACKS, TRACK_ENTRY, VIDEO = 0x18538067, 0x1F43B675, 0x1654AE6B, 0xAE, 0xE0
DISPLAY_WIDTH, DISPLAY_HEIGHT, DISPLAY_UNIT = 0x54B0, 0x54BA, 0x54B2


@dataclass(frozen=True, slots=True)
class EbmlElement:
    """One EBML element: its name, where it starts, and where its content starts and ends."""

    name: int
    start: int
    content: int
    end: int


def children(data: bytes | bytearray, start: int, end: int, name: int) -> Iterator[EbmlElement]:
    """Elements of one name between two offsets; of damaged data, what looks like them."""
    at = start
    while at < end - 1:
        found, after = number_at(data, at, keep_marker=True)
        size, content = number_at(data, after, keep_marker=False)
        is_unknown = size == (1 << 7 * (content - after)) - 1
        stop = len(data) if is_unknown else min(content + size, len(data))
        if found == name:
            yield EbmlElement(found, at, content, stop)
        at = stop


def number_at(data: bytes | bytearray, at: int, *, keep_marker: bool) -> tuple[int, int]:
    """An integer of variable length, and the position after it."""
    first = data[at] if at < len(data) else 0
    length = 9 - first.bit_length() if first else 8
    value = int.from_bytes(data[at : at + length], "big")
    return (value if keep_marker else value & ((1 << 7 * length) - 1)), at + length
