"""Elements of EBML, of which Matroska files consist: names, sizes, what is inside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SEGMENT, TRACKS, INFO, CHAPTERS, CLUSTER = (
    0x18538067,
    0x1654AE6B,
    0x1549A966,
    0x1043A770,
    0x1F43B675,
)


@dataclass(frozen=True, slots=True)
class EbmlElement:
    """One EBML element: its name, where it starts, and where its content starts and ends."""

    name: int
    start: int
    content: int
    end: int


def children(data: bytes | bytearray, start: int, end: int, name: int = 0) -> Iterator[EbmlElement]:
    """Elements between two places, in their order.

    Args:
        data: Bytes that contain them; a part beyond its end is cut off.
        start: Offset of the first, bytes.
        end: End of the last, bytes.
        name: Only those of this name; 0 for all.
    """
    at = start
    while at < min(end, len(data)) - 1:
        found = element_at(data, at)
        if found is None:
            return
        if name in (0, found.name):
            yield found
        at = found.end


def element_at(data: bytes | bytearray, at: int) -> EbmlElement | None:
    """The element at a place, up to the end of the data where its size is unknown; None at none."""
    found, after = _number(data, at, keep_marker=True)
    size, content = _number(data, after, keep_marker=False)
    if content > len(data) or content == after:
        return None
    is_unknown = size == (1 << 7 * (content - after)) - 1
    return EbmlElement(found, at, content, len(data) if is_unknown else content + size)


def _number(data: bytes | bytearray, at: int, *, keep_marker: bool) -> tuple[int, int]:
    """An integer of variable length, and the position after it; the same where there is none."""
    if at >= len(data) or not data[at]:
        return 0, at
    length = 9 - data[at].bit_length()
    value = int.from_bytes(data[at : at + length], "big")
    return (value if keep_marker else value & ((1 << 7 * length) - 1)), at + length
