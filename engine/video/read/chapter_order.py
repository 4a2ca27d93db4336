"""Editions, chapters and linked parts of Matroska files that FFmpeg does not show."""

from __future__ import annotations

from pathlib import Path

from engine.core.file_access import RetryingFile
from engine.protocol.media import ChapterOrder
from engine.video.read.ebml import (
    CHAPTERS,
    INFO,
    EbmlElement,
    MatroskaParts,
    bytes_of,
    inside,
    value_of,
)

_EDITION, _IS_DEFAULT, _IS_ORDERED = 0x45B9, 0x45DB, 0x45DD
_CHAPTER, _CHAPTER_SEGMENT, _OWN_SEGMENT = 0xB6, 0x6E67, 0x73A4
_CHAPTER_START, _DISPLAY = 0x91, 0x80
_NEIGHBOURS = frozenset({0x3CB923, 0x3EB923, 0x3C83AB, 0x3E83BB})  # ids and names of files


def chapter_order(path: Path) -> ChapterOrder | None:
    """Order in which a Matroska file is meant to be played, and chapters that are not read.

    Reads the parts before its first frames, and its chapters wherever they are.

    Returns:
        None where the file states nothing of that kind.

    Raises:
        OSError: It cannot be opened.
    """
    with RetryingFile(path) as file:
        header = MatroskaParts(file)
        info, chapters = header.part(INFO), header.part(CHAPTERS)
    own = next((bytes_of(info, one) for one in inside(info, _OWN_SEGMENT)), b"")
    is_linked = any(one.name in _NEIGHBOURS for one in inside(info))
    editions = list(inside(chapters, _EDITION))
    default = next((one for one in editions if _is_set(chapters, one, _IS_DEFAULT)), None)
    played = default or (editions[0] if editions else None)
    found = ChapterOrder(
        editions=len(editions),
        unread=sum(_unread(chapters, one) for one in editions[:1]),
        titles=sum(_further_titles(chapters, one) for one in editions[:1]),
        is_ordered=played is not None and _is_set(chapters, played, _IS_ORDERED),
        elsewhere=0 if played is None else _parts_elsewhere(chapters, played, own),
        is_linked=is_linked,
    )
    return found if found.says_anything else None


def _is_set(data: bytes, edition: EbmlElement, flag: int) -> bool:
    return any(value_of(data, one) for one in inside(data, flag, edition))


def _unread(data: bytes, edition: EbmlElement) -> int:
    """Chapters of an edition within others, and those that do not begin after all before them."""
    count, last = 0, 0
    for chapter in inside(data, _CHAPTER, edition):
        start = next((value_of(data, one) for one in inside(data, _CHAPTER_START, chapter)), 0)
        count += 0 < last >= start
        last = max(last, start)
        within = [chapter]
        while within:
            found = [*inside(data, _CHAPTER, within.pop())]
            within += found
            count += len(found)
    return count


def _further_titles(data: bytes, edition: EbmlElement) -> int:
    """Titles of chapters, in other languages, beside one of each."""
    titles = (len([*inside(data, _DISPLAY, one)]) for one in inside(data, _CHAPTER, edition))
    return sum(max(0, count - 1) for count in titles)


def _parts_elsewhere(data: bytes, edition: EbmlElement, own: bytes) -> int:
    """Chapters of an edition whose frames are in other files."""
    return sum(
        any(bytes_of(data, one) != own for one in inside(data, _CHAPTER_SEGMENT, chapter))
        for chapter in inside(data, _CHAPTER, edition)
    )
