import itertools
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest

from engine.core.errors import OutputError
from engine.core.geometry import Size
from engine.protocol.media import Statement
from engine.video.read.ebml import SEGMENT, TRACKS, children
from engine.video.read.probe import probe
from engine.video.write.track_header import (
    TrackFacts,
    display_size,
    make_room,
    write_facts,
)
from tests.helpers.clips import copied, make_clip

SHAPES = [
    (Size(720, 576), Fraction(64, 45)),
    (Size(1440, 1080), Fraction(4, 3)),
    (Size(7680, 4320), Fraction(255, 254)),
    (Size(16384, 16384), Fraction(2, 1)),
]
SBS = TrackFacts(stereo3d="1")


def test_display_size_has_exactly_the_aspect_ratio_and_about_the_height() -> None:
    for size, aspect in SHAPES:
        seen = display_size(size, aspect)
        assert Fraction(seen.width, seen.height) == aspect * Fraction(size.width, size.height)
        assert seen.height <= 2 * size.height
        assert max(seen.width, seen.height) <= 65535


def with_room(path: Path, facts: TrackFacts, size: tuple[int, int] = (96, 64)) -> Path:
    """A clip whose track has room for facts, named "A title" or "A handler"."""
    codec = "ffv1" if path.suffix == ".mkv" else "libx264"
    source = make_clip(path.with_name("from.mkv"), codec=codec, size=size)

    def change(film: Any) -> None:
        film.metadata.update(title="A title", handler_name="A handler")
        make_room(film.metadata, path.suffix[1:], facts)

    return copied(source, path, change=change)


def test_the_file_keeps_its_frames_and_gets_the_aspect_ratio(tmp_path: Path) -> None:
    aspects = itertools.cycle((Fraction(16, 15), Fraction(64, 45), Fraction(1, 2)))
    for size, aspect in zip(((96, 64), (320, 120), (96, 300), (320, 300)), aspects, strict=False):
        facts = TrackFacts(display=display_size(Size(*size), aspect))
        path = with_room(tmp_path / "a.mkv", facts, size)
        before = path.stat().st_size
        write_facts(path, "mkv", facts)
        assert path.stat().st_size == before
        with av.open(str(path)) as file:
            frames = list(file.decode(video=0))
            assert file.streams.video[0].sample_aspect_ratio == aspect
            assert file.streams.video[0].metadata["title"] == "A title"
        assert len(frames) == 10
        assert frames[0].rotation == 0


def decoded(path: Path) -> int:
    with av.open(str(path)) as file:
        return sum(1 for _ in file.decode(video=0))


YAW, EIGHTH = 30 << 16, 1 << 29
STATED = [
    ("mkv", SBS),
    ("mkv", TrackFacts(stereo3d="1i")),
    ("mkv", TrackFacts(stereo3d="2i", display=Size(96, 64))),
    ("mkv", TrackFacts(stereo3d="3")),
    ("mp4", SBS),
    ("mov", TrackFacts(stereo3d="2")),
    *(
        (container, TrackFacts(stereo3d=stereo, spherical=projection))
        for container, stereo in (("mkv", "2"), ("mp4", "2"), ("mov", ""))
        for projection in (
            "0,0,0,0,0,0,0,0,0",
            f"0,{YAW},{-YAW},7,0,0,0,0,0",
            f"1,{YAW},0,0,0,0,0,0,0",
            f"2,0,0,0,{EIGHTH},{2 * EIGHTH},{3 * EIGHTH},0,0",
        )
    ),
]


@pytest.mark.parametrize(("container", "facts"), STATED)
def test_what_is_written_is_read_again(container: str, facts: TrackFacts, tmp_path: Path) -> None:
    path = with_room(tmp_path / f"a.{container}", facts)
    before, frames = path.stat().st_size, decoded(path)
    assert probe(path).statements == ()
    write_facts(path, container, facts)
    wanted = {"stereo3d": facts.stereo3d, "spherical": facts.spherical}
    found = probe(path)
    assert found.statements == tuple(
        Statement(kind=kind, value=value) for kind, value in sorted(wanted.items()) if value
    )
    assert path.stat().st_size == before
    with av.open(str(path)) as file:
        film = file.streams.video[0]
        key, name = ("title", "A title") if container == "mkv" else ("handler_name", "A handler")
        assert film.metadata[key] == name
    assert decoded(path) == frames != 0


def test_the_display_size_of_two_views_is_that_of_one(tmp_path: Path) -> None:
    facts = TrackFacts(stereo3d="1", display=display_size(Size(96, 64), Fraction(2)))
    path = with_room(tmp_path / "a.mkv", facts)
    write_facts(path, "mkv", facts)
    assert b"\x54\xb0\x40\x02\x00\x60" in path.read_bytes(), "DisplayWidth 96"
    assert probe(path).video.sample_aspect == 2


def checksum_is_right(path: Path) -> bool:
    data = path.read_bytes()

    (segment,) = children(data, 0, len(data), SEGMENT)
    (tracks,) = children(data, segment.content, segment.end, TRACKS)
    start, end = tracks.content, tracks.end
    stored = int.from_bytes(data[start + 2 : start + 6], "little")
    return zlib.crc32(data[start + 6 : end]) == stored


def test_the_checksum_of_the_tracks_is_renewed(tmp_path: Path) -> None:
    path = with_room(tmp_path / "a.mkv", SBS)
    assert checksum_is_right(path)  # FFmpeg's own
    write_facts(path, "mkv", SBS)
    assert checksum_is_right(path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"V_FFV1", b"V_FFV2"))
    assert not checksum_is_right(path)


@pytest.mark.parametrize("container", ["mkv", "mp4"])
def test_a_file_without_room_stays_as_it_is(container: str, tmp_path: Path) -> None:
    path = make_clip(tmp_path / f"a.{container}")
    data = path.read_bytes()
    with pytest.raises(OutputError, match="shape of the pixels"):
        write_facts(path, container, TrackFacts(stereo3d="1", spherical=",".join("0" * 9)))
    assert path.read_bytes() == data
