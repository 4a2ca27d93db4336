"""A film that is read by ranges is the same film, and little of it is kept."""

from __future__ import annotations

import os
import random
from concurrent.futures import Future
from pathlib import Path

import pytest

from engine.core.errors import InputError
from engine.farm import transfer
from engine.farm.transfer import RemoteSource
from engine.video.read.frame_mark import FrameMark
from engine.video.read.frame_reader import FrameReader
from engine.video.read.media_file import lies_elsewhere
from engine.video.read.probe import probe
from tests.helpers.clips import copied, make_clip


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
