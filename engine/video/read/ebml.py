"""Elements of EBML, of which Matroska files consist: names, sizes, what is inside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.core.file_access import RetryingFile

SEGMENT, TRACKS, INFO, CHAPTERS, CLUSTER, CUES = (
    0x18538067,
    0x1654AE6B,
    0x1549A966,
    0x1043A770,
    0x1F43B675,
    0x1C53BB6B,
)
MOST_BYTES = 16 << 20  # that are read of one part
_SEEK_HEAD, _SEEK, _SEEK_ID, _SEEK_POSITION = 0x114D9B74, 0x4DBB, 0x53AB, 0x53AC
_HEADER_BYTES = 32
_MOST_PARTS = 64  # before the first cluster


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


def inside(
    data: bytes | bytearray, name: int = 0, within: EbmlElement | None = None
) -> Iterator[EbmlElement]:
    """Elements of a name, 0 for all, within another one or within all of the data."""
    return children(data, *((within.content, within.end) if within else (0, len(data))), name)


def bytes_of(data: bytes, element: EbmlElement) -> bytes:
    """Content of an element."""
    return data[element.content : element.end]


def value_of(data: bytes, element: EbmlElement) -> int:
    """Content of an element that is a whole number."""
    return int.from_bytes(bytes_of(data, element), "big")


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


class MatroskaParts:
    """The parts of a Matroska file that lie before its frames, or are named there."""

    def __init__(self, file: RetryingFile) -> None:
        self._file = file
        self._places: dict[int, int] = {}  # of parts, by their names
        at = 0
        for _ in range(2):  # the header of EBML, then the segment
            element = self._element(at)
            if element is None or element.name == SEGMENT:
                break
            at = element.end
        else:
            element = self._element(at)
        if element is not None and element.name == SEGMENT:
            self._find_parts(element.content)

    def part(self, name: int) -> bytes:
        """The content of a part; b"" where there is none."""
        element = self._element(self._places[name]) if name in self._places else None
        if element is None or element.name != name:
            return b""
        self._file.seek(element.content)
        return self._read(min(element.end - element.content, MOST_BYTES))

    def _find_parts(self, begin: int) -> None:
        at = begin
        for _ in range(_MOST_PARTS):
            element = self._element(at)
            if element is None or element.name == CLUSTER:
                break
            self._places.setdefault(element.name, at)
            at = element.end
        table = self.part(_SEEK_HEAD)
        for entry in inside(table, _SEEK):
            fields = {one.name: value_of(table, one) for one in inside(table, 0, entry)}
            if {_SEEK_ID, _SEEK_POSITION} <= fields.keys():
                self._places.setdefault(fields[_SEEK_ID], begin + fields[_SEEK_POSITION])

    def _element(self, at: int) -> EbmlElement | None:
        """An element by its header, with its places in the file."""
        self._file.seek(at)
        found = element_at(self._read(_HEADER_BYTES), 0)
        if found is None:
            return None
        return EbmlElement(found.name, at, at + found.content, at + found.end)

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count and (more := self._file.read(count - len(data))):
            data += more
        return data
