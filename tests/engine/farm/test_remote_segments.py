"""Segments arrive as they were sent, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.farm import transfer
from engine.farm.transfer import SegmentDamaged, SegmentsReceived, send_segment

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
