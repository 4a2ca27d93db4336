"""Segments arrive as they were sent, or not at all; a source read by ranges is the same source."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from engine.core.errors import InputError
from engine.farm import transfer
from engine.farm.transfer import RemoteSource, SegmentDamaged, SegmentsReceived, send_segment
from engine.protocol.media import FrameMark
from engine.video.read.frame_reader import FrameReader
from engine.video.read.media_file import lies_elsewhere
from engine.video.read.probe import probe
from tests.helpers.clips import copied, make_clip

Change = Callable[[int, bytes, str], tuple[int, bytes, str]]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "PIECE_BYTES", 1000)


def sent(folder: Path, content: bytes, change: Change = lambda *piece: piece) -> Path:
    """Send a segment from one folder to another; its path there."""
    (folder / "there").mkdir()
    path = folder / "segment_000007.mkv"
    path.write_bytes(content)
    received = SegmentsReceived(folder / "there")
    send_segment(path, lambda *piece: asyncio.run(received.take(3, 7, *change(*piece))))
    return folder / "there" / "segment_000007.3.mkv"


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 5000])
def test_a_segment_arrives_and_goes(size: int, tmp_path: Path) -> None:
    content = bytes(n % 251 for n in range(size))
    assert sent(tmp_path, content).read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["there"]
    assert len(list((tmp_path / "there").iterdir())) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda begin, piece, sha: (begin, piece[:-1] + b"\xff", sha),
        lambda begin, piece, sha: (begin, piece[:-1], sha),
        lambda begin, piece, sha: (begin + 1, piece, sha),
        lambda begin, piece, sha: (begin, piece, sha and "0" * 64),
    ],
)
def test_a_damaged_segment_is_refused_and_gone(change: Change, tmp_path: Path) -> None:
    with pytest.raises(SegmentDamaged):
        sent(tmp_path, bytes(2500), change)
    assert not list((tmp_path / "there").iterdir())


def test_an_older_file_stays_until_all_has_arrived(tmp_path: Path) -> None:
    received, path = SegmentsReceived(tmp_path), tmp_path / "segment_000001.0.mkv"
    path.write_bytes(b"before")
    assert asyncio.run(received.take(0, 1, 0, b"after", ""))
    assert path.read_bytes() == b"before"
    received.forget(0)
    assert list(tmp_path.iterdir()) == [path]


def test_a_worker_that_goes_while_its_last_piece_is_checked_is_no_failure_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received, sha256_of = SegmentsReceived(tmp_path), transfer._sha256_of

    def goes(part: Path) -> str:
        received.forget(3)
        return sha256_of(part)

    monkeypatch.setattr(transfer, "_sha256_of", goes)
    assert not asyncio.run(received.take(3, 7, 0, b"all", "0" * 64))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_has_gone_is_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        asyncio.run(SegmentsReceived(tmp_path / "gone").take(3, 7, 0, b"all", ""))


class Ranges:
    """Gives ranges of a file at once, and counts them."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        self.asked: list[tuple[int, int]] = []
        self.is_gone = False

    def __call__(self, begin: int, count: int) -> Future[bytes]:
        self.asked.append((begin, count))
        answer: Future[bytes] = Future()
        if self.is_gone:
            answer.set_exception(ConnectionResetError("gone"))
        else:
            answer.set_result(self._data[begin : begin + count])
        return answer

    def source(self, path: Path) -> RemoteSource:
        return RemoteSource(path, len(self._data), self)


def frames(media) -> list[tuple[int, int]]:
    with FrameReader(media) as reader:
        return [(frame.pts, frame.crc) for frame in reader]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "BLOCK_BYTES", 1 << 12)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["film.mkv", "film.mp4", "end.mp4", "film.ts"])
def test_a_film_by_ranges_is_the_film(name: str, tmp_path: Path) -> None:
    film = make_clip(tmp_path / name, frames=50, size=(64, 48), audio_tracks=1, gop=10)
    if name == "film.mp4":  # its index comes first, which FFmpeg writes on request
        film = copied(film, tmp_path / "first.mp4", options={"movflags": "faststart"})
        assert film.read_bytes().index(b"moov") < film.read_bytes().index(b"mdat")
    media, right = probe(film), frames(probe(film))
    ranges = Ranges(film)
    film.unlink()
    with lies_elsewhere(film, ranges.source(film).open):
        assert frames(media) == right
        mark = FrameMark(count=31, pts=right[30][0], crc=right[30][1])
        with FrameReader(media) as reader:
            assert [(frame.pts, frame.crc) for frame in reader.iter_after(mark)] == right[31:]
    with pytest.raises(InputError):
        frames(media)


@pytest.mark.usefixtures("small_blocks")
def test_any_reads_and_seeks_give_the_bytes_of_the_file(tmp_path: Path) -> None:
    path, chance = tmp_path / "file", random.Random(1)
    path.write_bytes(chance.randbytes(300_001))
    ranges = Ranges(path)
    source = ranges.source(path)
    with source.open() as far, path.open("rb") as near:
        for _ in range(500):
            match chance.randrange(3):
                case 0:
                    place = chance.randrange(310_000), os.SEEK_SET
                case 1:
                    place = chance.randrange(-4000, 4000), os.SEEK_CUR
                case _:
                    place = -chance.randrange(300_000), os.SEEK_END
            at = far.seek(*place)
            near.seek(at)
            assert far.tell() == at
            while piece := far.read(chance.randrange(1, 9000)):
                assert near.read(len(piece)) == piece
                if chance.random() < 0.5:
                    break
    assert len(source._blocks) <= 64
    assert max(begin + count for begin, count in ranges.asked) == 300_001


@pytest.mark.usefixtures("small_blocks")
def test_a_row_of_reads_fetches_each_block_once_and_ahead(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(40 * 4096))
    ranges = Ranges(path)
    file = ranges.source(path).open()
    file.read(100)
    assert len(ranges.asked) == 9
    while file.read(1000):
        pass
    assert ranges.asked == [(n * 4096, 4096) for n in range(40)]


@pytest.mark.usefixtures("small_blocks")
def test_a_lost_connection_is_an_error_of_the_source(tmp_path: Path) -> None:
    film = make_clip(tmp_path / "film.mkv", frames=50, size=(64, 48), gop=10)
    media, ranges = probe(film), Ranges(film)
    ranges.is_gone = True
    with (
        lies_elsewhere(film, ranges.source(film).open),
        pytest.raises(InputError, match="gone"),
    ):
        frames(media)
