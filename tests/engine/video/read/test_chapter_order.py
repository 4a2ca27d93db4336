"""Editions, ordered chapters and linked files of Matroska are found, and named before the start."""

from pathlib import Path

import pytest

from engine.planner.notices import _order
from engine.protocol.media import ChapterOrder
from engine.video.read.chapter_order import chapter_order
from engine.video.read.ebml import CHAPTERS, CLUSTER, INFO, SEGMENT, children
from engine.video.read.probe import probe
from tests.helpers.clips import make_clip

EBML, SEEK_HEAD, CUES = 0x1A45DFA3, 0x114D9B74, 0x1C53BB6B
OWN, OTHER = b"o" * 16, b"x" * 16


def element(name: int, *content: bytes) -> bytes:
    data = b"".join(content)
    size = (len(data) | 1 << 56).to_bytes(8, "big")
    return name.to_bytes((name.bit_length() + 7) // 8, "big") + size + data


def chapter(start: int, segment: bytes = b"", *more: bytes) -> bytes:
    times = element(0x91, start.to_bytes(4, "big")), element(0x92, (start + 9).to_bytes(4, "big"))
    where = element(0x6E67, segment) if segment else b""
    return element(0xB6, element(0x73C4, bytes([start + 1])), *times, where, *more)


def edition(*chapters: bytes, ordered: int = 0, default: int = 0) -> bytes:
    flags = element(0x45DB, bytes([default])), element(0x45DD, bytes([ordered]))
    return element(0x45B9, *flags, *chapters)


PLAIN = edition(chapter(0), chapter(10))
TITLE = element(0x80, element(0x85, b"One"))
NESTED = chapter(0, b"", TITLE, TITLE, chapter(1, b"", chapter(2)), chapter(3))
SHARED = edition(chapter(0, OWN), chapter(0, OTHER), chapter(10, OTHER), ordered=1, default=1)
STATED = {
    "one list": ((PLAIN,), b"", None),
    "two editions": ((PLAIN, PLAIN), b"", ChapterOrder(editions=2)),
    "ordered": ((edition(chapter(10), ordered=1),), b"", ChapterOrder(editions=1, is_ordered=True)),
    "ordered, not by default": (
        (edition(chapter(0), ordered=1), edition(chapter(0), default=1)),
        b"",
        ChapterOrder(editions=2),
    ),
    "in other files": (
        (PLAIN, SHARED),
        b"",
        ChapterOrder(editions=2, is_ordered=True, elsewhere=2),
    ),
    "nested, out of order, with two titles": (
        (edition(NESTED, chapter(20, b"", TITLE), chapter(20), chapter(10)),),
        b"",
        ChapterOrder(editions=1, unread=5, titles=1),
    ),
    "linked": ((), element(0x3EB923, OTHER), ChapterOrder(is_linked=True)),
}


@pytest.mark.parametrize("place", ["before the frames", "after them"])
@pytest.mark.parametrize("what", STATED)
def test_the_order_that_a_file_states_is_found(tmp_path: Path, what: str, place: str) -> None:
    editions, linked, expected = STATED[what]
    info = element(INFO, element(0x73A4, OWN), linked)
    chapters, frames = element(CHAPTERS, *editions), element(CLUSTER, bytes(100))
    parts = [info, chapters, frames]
    if place == "after them":
        seek_id, length = element(0x53AB, CHAPTERS.to_bytes(4, "big")), 8
        table = element(SEEK_HEAD, element(0x4DBB, seek_id, element(0x53AC, bytes(length))))
        at = len(table) + len(info) + len(frames)
        where = element(0x53AC, at.to_bytes(length, "big"))
        parts = [element(SEEK_HEAD, element(0x4DBB, seek_id, where)), info, frames, chapters]
    path = tmp_path / "a.mkv"
    path.write_bytes(element(EBML, bytes(20)) + element(SEGMENT, *parts))
    assert chapter_order(path) == expected
    for end in range(0, path.stat().st_size, 23):  # damaged files never raise
        (tmp_path / "cut.mkv").write_bytes(path.read_bytes()[:end])
        chapter_order(tmp_path / "cut.mkv")


def test_a_film_of_two_editions_is_probed_with_the_chapters_of_the_first(tmp_path: Path) -> None:
    data = make_clip(tmp_path / "a.mkv").read_bytes()
    (segment,) = children(data, 0, len(data), SEGMENT)
    parts = [
        data[part.start : part.end]
        for part in children(data, segment.content, len(data))
        if part.name not in (SEEK_HEAD, CUES)  # they state places
    ]
    parts.insert(-1, element(CHAPTERS, PLAIN, SHARED))
    path = tmp_path / "b.mkv"
    path.write_bytes(data[: segment.start] + element(SEGMENT, *parts))
    media = probe(path)
    assert media.chapter_order == ChapterOrder(editions=2, is_ordered=True, elsewhere=3)
    assert len(media.chapters) == 2  # FFmpeg leaves out what does not rise
    assert probe(tmp_path / "a.mkv").chapter_order is None


def test_each_of_them_has_a_notice() -> None:
    orders = {
        ChapterOrder(editions=1, is_ordered=True): ["chapters-ordered"],
        ChapterOrder(editions=1, is_ordered=True, elsewhere=2): ["chapters-ordered"],
        ChapterOrder(editions=3): ["several-editions"],
        ChapterOrder(editions=1, unread=2): ["chapters-unread"],
        ChapterOrder(editions=1, titles=2): ["chapter-titles"],
        ChapterOrder(is_linked=True): ["linked-file"],
    }
    for order, codes in orders.items():
        notices = [*_order(order)]
        assert [notice.code for notice in notices] == codes
        assert all(notice.severity == "warning" and notice.message for notice in notices)
