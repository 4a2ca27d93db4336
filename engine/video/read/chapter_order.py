"""Editions and linked parts of Matroska files, which FFmpeg does not show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.core.file_access import RetryingFile
from engine.protocol.media import ChapterOrder
from engine.video.read.ebml import (
    CHAPTERS,
    CLUSTER,
    INFO,
    SEGMENT,
    EbmlElement,
    children,
    element_at,
)

_SEEK_HEAD, _SEEK, _SEEK_ID, _SEEK_POSITION = 0x114D9B74, 0x4DBB, 0x53AB, 0x53AC
_EDITION, _IS_DEFAULT, _IS_ORDERED = 0x45B9, 0x45DB, 0x45DD
_CHAPTER, _CHAPTER_SEGMENT, _OWN_SEGMENT = 0xB6, 0x6E67, 0x73A4
_NEIGHBOURS = frozenset({0x3CB923, 0x3EB923, 0x3C83AB, 0x3E83BB})  # ids and names of files
_HEADER_BYTES = 32
_MOST_BYTES = 16 << 20  # of one part of the header
_MOST_PARTS = 64  # before the first cluster


def chapter_order(path: Path) -> ChapterOrder | None:
    """Order in which a Matroska file states that it is meant to be played.

    Reads the parts before its first frames, and its chapters wherever they are.

    Returns:
        None where the file states nothing of that kind.

    Raises:
        OSError: It cannot be opened.
    """
    with RetryingFile(path) as file:
        header = _Header(file)
        info, chapters = header.part(INFO), header.part(CHAPTERS)
    own = next((_bytes(info, one) for one in _inside(info, _OWN_SEGMENT)), b"")
    is_linked = any(one.name in _NEIGHBOURS for one in _inside(info))
    editions = list(_inside(chapters, _EDITION))
    default = next((one for one in editions if _is_set(chapters, one, _IS_DEFAULT)), None)
    played = default or (editions[0] if editions else None)
    found = ChapterOrder(
        editions=len(editions),
        is_ordered=played is not None and _is_set(chapters, played, _IS_ORDERED),
        elsewhere=0 if played is None else _parts_elsewhere(chapters, played, own),
        is_linked=is_linked,
    )
    return found if found.says_anything else None


class _Header:
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
        return self._read(min(element.end - element.content, _MOST_BYTES))

    def _find_parts(self, begin: int) -> None:
        at = begin
        for _ in range(_MOST_PARTS):
            element = self._element(at)
            if element is None or element.name == CLUSTER:
                break
            self._places.setdefault(element.name, at)
            at = element.end
        table = self.part(_SEEK_HEAD)
        for entry in _inside(table, _SEEK):
            inside = {one.name: _value(table, one) for one in children(table, *_span(entry))}
            if {_SEEK_ID, _SEEK_POSITION} <= inside.keys():
                self._places.setdefault(inside[_SEEK_ID], begin + inside[_SEEK_POSITION])

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


def _inside(data: bytes, name: int = 0) -> Iterator[EbmlElement]:
    return children(data, 0, len(data), name)


def _span(element: EbmlElement) -> tuple[int, int]:
    return element.content, element.end


def _bytes(data: bytes, element: EbmlElement) -> bytes:
    return data[element.content : element.end]


def _value(data: bytes, element: EbmlElement) -> int:
    return int.from_bytes(_bytes(data, element), "big")


def _is_set(data: bytes, edition: EbmlElement, flag: int) -> bool:
    return any(_value(data, one) for one in children(data, *_span(edition), flag))


def _parts_elsewhere(data: bytes, edition: EbmlElement, own: bytes) -> int:
    """Chapters of an edition whose frames are in other files."""
    return sum(
        any(_bytes(data, one) != own for one in children(data, *_span(chapter), _CHAPTER_SEGMENT))
        for chapter in children(data, *_span(edition), _CHAPTER)
    )
