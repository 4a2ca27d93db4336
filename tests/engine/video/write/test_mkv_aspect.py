import itertools
import zlib
from fractions import Fraction
from pathlib import Path

import av
import pytest

from engine.core.errors import OutputError
from engine.core.geometry import Size
from engine.video.read.ebml import children
from engine.video.write.mkv_aspect import PLACEHOLDER, display_size, write_aspect
from tests.helpers.clips import copied, make_clip

SHAPES = [
    (Size(720, 576), Fraction(64, 45)),
    (Size(1440, 1080), Fraction(4, 3)),
    (Size(7680, 4320), Fraction(255, 254)),
    (Size(16384, 16384), Fraction(2, 1)),
]


def test_display_size_has_exactly_the_aspect_ratio_and_about_the_height() -> None:
    for size, aspect in SHAPES:
        seen = display_size(size, aspect)
        assert Fraction(seen.width, seen.height) == aspect * Fraction(size.width, size.height)
        assert seen.height <= 2 * size.height
        assert max(seen.width, seen.height) <= 65535


def with_placeholder(path: Path, size: tuple[int, int] = (96, 64)) -> Path:
    source = make_clip(path.with_name("from.mkv"), codec="ffv1", size=size)
    return copied(source, path, change=lambda film: film.set_display_matrix(PLACEHOLDER))


def test_the_file_keeps_its_frames_and_gets_the_aspect_ratio(tmp_path: Path) -> None:
    aspects = itertools.cycle((Fraction(16, 15), Fraction(64, 45), Fraction(1, 2)))
    for size, aspect in zip(((96, 64), (320, 120), (96, 300), (320, 300)), aspects, strict=False):
        path = with_placeholder(tmp_path / "a.mkv", size)
        before = path.stat().st_size
        write_aspect(path, Size(*size), aspect)
        assert path.stat().st_size == before
        with av.open(str(path)) as file:
            frames = list(file.decode(video=0))
            assert file.streams.video[0].sample_aspect_ratio == aspect
        assert len(frames) == 10
        assert frames[0].rotation == 0


def checksum_is_right(path: Path) -> bool:
    data = bytearray(path.read_bytes())
    (segment,) = children(data, 0, len(data), 0x18538067)
    (tracks,) = children(data, segment.content, segment.end, 0x1654AE6B)
    stored = int.from_bytes(data[tracks.content + 2 : tracks.content + 6], "little")
    return zlib.crc32(data[tracks.content + 6 : tracks.end]) == stored


def test_the_checksum_of_the_tracks_is_renewed(tmp_path: Path) -> None:
    path = with_placeholder(tmp_path / "a.mkv")
    assert checksum_is_right(path)  # FFmpeg's own
    write_aspect(path, Size(96, 64), Fraction(4, 3))
    assert checksum_is_right(path)
    data = path.read_bytes()
    with pytest.raises(OutputError):  # it has an aspect ratio now
        write_aspect(path, Size(96, 64), Fraction(4, 3))
    assert path.read_bytes() == data
    path.write_bytes(data.replace(b"V_FFV1", b"V_FFV2"))
    assert not checksum_is_right(path)
