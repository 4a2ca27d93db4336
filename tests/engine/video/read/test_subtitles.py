"""Display times of subtitles, and the place from which those of a given time are read."""

from fractions import Fraction
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import pytest

from engine.video.read import subtitles
from engine.video.read.subtitles import ShownLengths, seen_from
from tests.helpers.clips import make_clip

MS = Fraction(1, 1000)


def lengths_of(codec: str, *packets: tuple[int, int, bytes]) -> list[float]:
    """Lengths of packets, by their start and duration, ms, and their content."""
    context = SimpleNamespace(codec=SimpleNamespace(canonical_name=codec))
    stream, found = SimpleNamespace(codec_context=context, time_base=MS), ShownLengths()
    for start, duration, data in packets:
        packet = av.Packet(data)
        packet.pts, packet.duration = start, duration
        found.add(stream, packet)
    return found.found


def pgs(state: int, objects: int = 1) -> bytes:
    return bytes([0x16, 0, 11, 0, 96, 0, 64, 16, 0, 0, state, 0, 0, objects])


def dvb(seconds: int, state: int, regions: int = 1) -> bytes:
    page = bytes([seconds, state << 2, *[0] * 6 * regions])
    first = bytes([0x0F, 0x14, 0, 1, 0, 5, *[0] * 5])  # the size of the display
    return first + bytes([0x0F, 0x10, 0, 1, 0, len(page)]) + page


def test_subtitles_last_as_stated_or_up_to_the_next_that_replaces_all() -> None:
    assert lengths_of("subrip", (0, 500, b"a"), (100, 0, b"b"), (200, 900, b"c")) == [500, inf, 900]
    assert lengths_of("subrip", (0, 0, b"a"), (100, 0, b"b")) == [100, inf]
    begins, changes, clears = pgs(0x80), pgs(0), pgs(0, objects=0)
    made = [(0, 0, begins), (100, 0, changes), (300, 0, clears), (900, 0, pgs(0x40))]
    assert lengths_of("hdmv_pgs_subtitle", *made) == [300, 200, 0, inf]
    short = bytes([0x0F, 0x10, 0, 1, 0, 1, 9])  # a page that is cut off
    assert lengths_of("dvb_subtitle", (0, 0, short), (100, 0, dvb(9, 2))) == [100, 9000]
    made = [(0, 0, dvb(3, 2)), (100, 0, dvb(9, 0)), (4000, 0, dvb(9, 0, regions=0))]
    assert lengths_of("dvb_subtitle", *made) == [3000, 3900, 0]
    assert lengths_of("dvd_subtitle", (0, 900, b"a"), (300, 900, b"b")) == [300, 900]


def spoken(path: Path, cues: list[tuple[int, int]], *, other: bool = True) -> Any:
    """Open a file with texts by start and duration, ms, and a track with one at its beginning."""
    film = make_clip(path.with_name("film.mkv"), frames=5)
    with av.open(str(film)) as old, av.open(str(path), "w") as new:
        added = new.add_stream_from_template(old.streams.video[0], opaque=True)
        codec = "mov_text" if path.suffix == ".mp4" else "subrip"
        tracks: list[Any] = [new.add_mux_stream(codec, time_base=MS) for _ in range(2)]
        for packet in old.demux(old.streams.video[0]):
            if packet.size:
                packet.stream = added
                new.mux_one(packet)
        texts = [(tracks[0], *cue) for cue in cues] + ([(tracks[1], 0, 100)] if other else [])
        for stream, start, duration in texts:
            text = av.Packet(b"\0\1a" if codec == "mov_text" else b"a")
            text.stream, text.time_base = stream, MS
            text.pts = text.dts = start
            text.duration = duration
            new.mux_one(text)
    return av.open(str(path))


CUES = [(1000, 80_000), (2000, 500), (3000, 90_000), (70_000, 500)]


@pytest.mark.parametrize(
    ("name", "cues", "time", "expected"),
    [
        ("a.mkv", CUES, 80, 1),
        ("a.mkv", CUES, 90, 3),
        ("a.mkv", CUES, 100, 100),
        ("a.mkv", [(200_000, 100)], 100, 100),
        ("a.mkv", [], 100, 100),  # the other track shows that texts are in the index
        ("a.mkv", [(1000, 0)], 100, None),
        ("a.mp4", CUES, 80, 80),
        ("a.ts", [], 80, None),
    ],
)
def test_a_file_is_read_from_the_texts_on_that_are_shown(
    tmp_path: Path, name: str, cues: list[tuple[int, int]], time: int, expected: int | None
) -> None:
    path = tmp_path / name
    if name == "a.ts":
        make_clip(path, frames=5)
    with av.open(str(path)) if name == "a.ts" else spoken(path, cues) as file:
        assert seen_from(path, file, [1], Fraction(time)) == expected


def test_a_file_is_read_from_its_beginning_where_its_index_has_no_texts(tmp_path: Path) -> None:
    with spoken(tmp_path / "a.mkv", [], other=False) as file:
        assert seen_from(tmp_path / "a.mkv", file, [1], Fraction(80)) is None


@pytest.mark.parametrize(
    ("time", "expected"),
    [(50, 2), (100, 100), (205, 200), (240, 200), (260, 250), (310, 300), (320.2, 320)],
)
def test_a_file_is_read_from_the_picture_on_that_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time: float, expected: int
) -> None:
    """Its changes follow it sooner or later; one without parts ends it."""
    pictures = [(2, pgs(0x80)), (3, pgs(0)), (90, pgs(0, 0)), (200, pgs(0x80))]
    pictures += [(207, pgs(0)), (208, pgs(0)), (230, pgs(0)), (250, pgs(0x80))]
    pictures += [(300, pgs(0, 0)), (300, pgs(0x80)), (320, pgs(0x80)), (320.4, pgs(0, 0))]
    path = tmp_path / "a.mkv"
    film = make_clip(tmp_path / "film.mkv", frames=5)
    with av.open(str(film)) as old, av.open(str(path), "w") as new:
        added = new.add_stream_from_template(old.streams.video[0], opaque=True)
        track: Any = new.add_mux_stream("hdmv_pgs_subtitle", time_base=MS)
        for packet in old.demux(old.streams.video[0]):
            if packet.size:
                packet.stream = added
                new.mux_one(packet)
        for seconds, data in pictures:
            picture = av.Packet(data + b"\x80\0\0")
            picture.stream, picture.time_base = track, MS
            picture.pts = picture.dts = round(seconds * 1000)
            new.mux_one(picture)
    with av.open(str(path)) as file:
        assert seen_from(path, file, [1], Fraction(time)) == expected
        monkeypatch.setattr(subtitles, "_STEPS", 2)  # 230 s is the third after 200 s
        assert seen_from(path, file, [1], Fraction(time)) == (None if time == 240 else expected)
