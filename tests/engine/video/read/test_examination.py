"""What a sample of frames shows: scan, repeats, bars, detail, blocks and grain."""

import time
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from av.filter import Graph

from engine.core.geometry import Box, Size
from engine.protocol.media import Findings, MediaInfo
from engine.video.read import examination
from engine.video.read.examination import examined
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe
from tests.helpers.clips import copied, cut_short, joined, make_clip, make_picture
from tests.helpers.fields import NTSC, interlaced, picture, telecined, woven, write


def findings(path: Path) -> Findings:
    found = examined(probe(path)).findings
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("pictures", "scan", "order"),
    [
        ([picture(n) for n in range(30)], "progressive", "tt"),
        (interlaced(30, "tt"), "interlaced", "tt"),
        (interlaced(30, "bb"), "interlaced", "bb"),
        (telecined(30), "telecined", "tt"),
        ([picture(0)] * 20, "", "tt"),
    ],
)
@pytest.mark.parametrize(("name", "codec"), [("a.mkv", "ffv1"), ("a.mp4", "libx264")])
def test_frames_are_combed_or_not_whatever_the_file_states(
    tmp_path, pictures, scan, order, name, codec
):
    found = findings(write(tmp_path / name, pictures, NTSC, codec))
    assert (found.scan, found.field_order) == (scan, order)
    assert found.frames >= 20


def test_frames_that_repeat_the_one_before_are_counted(tmp_path):
    shown = [n - n // 5 for n in range(40)]
    repeated = findings(write(tmp_path / "a.mkv", [picture(n) for n in shown], NTSC))
    assert 0.15 <= repeated.repeats <= 0.25
    assert findings(write(tmp_path / "b.mkv", [picture(n) for n in range(30)])).repeats == 0


def test_bars_are_found_in_whole_chroma_samples(tmp_path):
    def barred(number: int, top: int, left: int) -> np.ndarray:
        frame = np.full((64, 96), 16, np.uint8)
        frame[top : 64 - top, left : 96 - left] = np.maximum(60, picture(number))[
            top : 64 - top, left : 96 - left
        ]
        return frame

    for top, left, expected in (
        (9, 0, Box(0, 10, 96, 44)),
        (0, 12, Box(12, 0, 72, 64)),
        (8, 12, Box(12, 8, 72, 48)),
        (0, 0, None),
        (2, 2, None),
    ):
        film = write(tmp_path / f"{top}-{left}.mkv", [barred(n, top, left) for n in range(12)])
        assert findings(film).picture == expected
    black = write(tmp_path / "black.mkv", [np.full((64, 96), 16, np.uint8)] * 8)
    assert findings(black).picture is None, "a film that begins in the dark"


def fine(number: int, side: int = 256) -> np.ndarray:
    """A picture whose power falls with the frequency, as that of natural ones: [side, side]."""
    rng = np.random.default_rng(3)
    place = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.rfftfreq(side), indexing="ij"))
    waves = np.exp(2j * np.pi * rng.random(place.shape)) / np.maximum(place, 1 / side)
    values = np.fft.irfft2(waves, s=(side, side))
    values = np.roll(values, 2 * number, axis=1)
    return (128 + 40 * values / values.std()).clip(16, 235)


def enlarged(small: np.ndarray, factor: int) -> np.ndarray:
    """As by an ideal filter: the same frequencies in a larger picture."""
    side = small.shape[0]
    waves = np.fft.fftshift(np.fft.fft2(small))
    padded = np.pad(waves, (factor - 1) * side // 2)
    return np.fft.ifft2(np.fft.ifftshift(padded)).real * factor**2


def test_a_film_that_was_enlarged_holds_the_detail_of_the_smaller_one(tmp_path):
    sharp = [fine(n).astype(np.uint8) for n in range(6)]
    assert findings(write(tmp_path / "sharp.mkv", sharp)).detail_height == 0
    soft = [enlarged(fine(n, 128), 2).clip(16, 235).astype(np.uint8) for n in range(6)]
    assert findings(write(tmp_path / "soft.mkv", soft)).detail_height == pytest.approx(128, rel=0.2)


def test_blocks_of_strong_compression_are_seen(tmp_path):
    clean = [fine(n).astype(np.uint8) for n in range(6)]
    blocks = [
        np.kron(one.reshape(32, 8, 32, 8).mean(axis=(1, 3)), np.ones((8, 8))) * 0.5 + one * 0.5
        for one in clean
    ]
    assert findings(write(tmp_path / "clean.mkv", clean)).blocking < 1.1
    coarse = write(tmp_path / "blocks.mkv", [one.astype(np.uint8) for one in blocks])
    assert findings(coarse).blocking > 1.25


def test_grain_is_noise_that_is_other_in_each_frame(tmp_path):
    rng = np.random.default_rng(5)
    smooth = np.tile(np.linspace(60, 180, 256), (256, 1))
    grainy = [(smooth + rng.normal(0, 6, smooth.shape)).astype(np.uint8) for _ in range(8)]
    fixed = (smooth + rng.normal(0, 6, smooth.shape)).astype(np.uint8)
    assert findings(write(tmp_path / "grain.mkv", grainy)).grain == pytest.approx(6 / 219, rel=0.3)
    assert findings(write(tmp_path / "fixed.mkv", [fixed] * 8)).grain < 0.002
    assert findings(write(tmp_path / "smooth.mkv", [smooth.astype(np.uint8)] * 8)).grain < 0.005


def test_time_is_bounded_and_pictures_are_not_looked_at(tmp_path):
    film = probe(write(tmp_path / "a.mkv", [picture(n) for n in range(60)]))
    begin = time.monotonic()
    assert examined(film, seconds=0.0).findings.frames <= 2, "of 48"
    assert time.monotonic() - begin < 1
    assert examined(probe(make_picture(tmp_path / "a.png"))).findings is None
    known = replace(film, findings=Findings(frames=7))
    assert examined(known) is known


def test_no_fault_of_a_file_or_of_ours_stops_anything(tmp_path, monkeypatch):
    film = make_clip(tmp_path / "a.mkv", frames=40)
    media = probe(film)
    cut_short(film, film, 0.5)
    assert isinstance(examined(media), MediaInfo)
    film.unlink()
    assert examined(media).findings is None

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(examination, "_looks", fail)
    assert examined(media) is media


BT709 = {"matrix": "bt709", "range": "tv", "primaries": "bt709", "transfer": "bt709"}
PQ = {"matrix": "bt2020nc", "range": "tv", "primaries": "bt2020", "transfer": "smpte2084"}
NARROW, WIDE = {"sar": Fraction(16, 15)}, {"sar": Fraction(64, 45)}
DV = {"size": (90, 72), "codec": "mpeg2video"}


@pytest.mark.parametrize(
    ("one", "other", "what", "taken", "rest", "seen"),
    [
        (DV | NARROW, DV | WIDE, "aspect", "16:9", "4:3", {"sample_aspect": Fraction(64, 45)}),
        (NARROW, WIDE, "aspect", "32:15", "8:5", {"sample_aspect": Fraction(64, 45)}),
        ({}, {"size": (64, 96)}, "size", "64x96", "96x64", {"size": Size(64, 96)}),
        ({}, {"pixel_format": "yuv422p"}, "format", "yuv422p", "yuv420p", {"chroma": "422"}),
        (
            {"tags": BT709},
            {"tags": PQ},
            "colours",
            "bt2020nc, bt2020, smpte2084",
            "bt709, bt709, bt709",
            {"hdr": "pq"},
        ),
    ],
)
def test_what_changes_is_taken_from_most_of_the_film_and_named(
    tmp_path, one, other, what, taken, rest, seen
):
    for parts in (((20, one), (60, other)), ((60, other), (20, one))):
        media = examined(probe(joined(tmp_path / "a.ts", *parts)))
        (found,) = [change for change in media.findings.changes if change.what == what]
        assert (found.taken, found.other) == (taken, rest)
        assert 0.1 < found.share < 0.45
        assert {name: getattr(media.video, name) for name in seen} == seen
        with FrameReader(media) as reader:
            assert {frame.planes[0].shape for frame in reader} == {
                (media.video.size.height, media.video.size.width)
            }


def test_a_film_of_one_kind_has_no_changes(tmp_path):
    for name, changes in (("a.mkv", NARROW), ("b.mp4", {"rotation": 90}), ("c.ts", {"tags": PQ})):
        media = probe(make_clip(tmp_path / name, frames=60, **changes))
        found = examined(media)
        assert (found.findings.changes, found.video) == ((), media.video)


def test_the_shape_that_a_container_states_counts_for_all_frames(tmp_path):
    source = joined(tmp_path / "a.ts", (20, DV | NARROW), (60, DV | WIDE))
    film = copied(source, tmp_path / "b.mov", change=lambda s: setattr(s, "sample_aspect_ratio", 2))
    media = examined(probe(film))
    (said,) = media.findings.changes
    assert (said.what, said.taken, said.other) == ("coded-aspect", "5:2", "4:3")
    assert media.video.sample_aspect == 2


@pytest.mark.parametrize(
    ("parts", "what"),
    [
        ((interlaced(40, "tt"), [picture(n) for n in range(40)]), {"scan"}),
        ((interlaced(40, "tt"), interlaced(40, "bb")), {"field-order"}),
        ((interlaced(80, "tt"),), set()),
        ((telecined(80),), set()),
    ],
)
def test_fields_that_change_are_named(tmp_path, parts, what):
    media = examined(probe(write(tmp_path / "a.mkv", [one for part in parts for one in part])))
    assert {change.what for change in media.findings.changes} == what


@cache
def _scroll(width: int, height: int, across: int, down: int) -> np.ndarray:
    """Frames [n, h, w] of strokes as letters have, which move evenly."""
    rng = np.random.default_rng(width)
    page = np.full((height + 64, width + 160), 30, np.uint8)
    for left in range(0, page.shape[1] - 6, 7):
        top = rng.integers(0, page.shape[0] - 10)
        page[top : top + 10, left : left + 2] = 220
        page[top + 4, left : left + 6] = 220
    return np.stack([page[n * down :, n * across :][:height, :width] for n in range(30)])


@cache
def _pattern(name: str, width: int, height: int) -> np.ndarray:
    """The luma of a test pattern of FFmpeg."""
    graph = Graph()
    source = graph.add(name, f"size={width}x{height}")
    chain = [source, graph.add("format", "gray"), graph.add("buffersink")]
    graph.link_nodes(*chain).configure()
    return np.stack([graph.pull().to_ndarray() for _ in range(30)])


@cache
def _noise(width: int, height: int) -> np.ndarray:
    rng = np.random.default_rng(height)
    return np.clip(rng.normal(110, 6, (30, height, width)), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("frames", [2, 3, 5, 30])
@pytest.mark.parametrize(("width", "height"), [(32, 32), (64, 48), (160, 120)])
def test_small_and_short_videos_are_no_fields_by_chance(tmp_path, width, height, frames):
    kinds = {
        **{
            f"text {dx} {dy}": _scroll(width, height, dx, dy) for dx, dy in ((1, 0), (5, 0), (0, 1))
        },
        **{name: _pattern(name, width, height) for name in ("testsrc", "testsrc2", "cellauto")},
        "noise": _noise(width, height),
    }
    for name, pictures in kinds.items():
        found = findings(write(tmp_path / "a.mkv", list(pictures[:frames])))
        assert found.scan in ("progressive", ""), name


@pytest.mark.parametrize(("across", "down"), [(1, 0), (3, 0), (0, 2)])
def test_text_of_usual_size_that_moves_in_fields_is_seen(tmp_path, across, down):
    pictures = _scroll(352, 288, across, down)
    fields = [woven(*pair, "tt") for pair in zip(pictures[::2], pictures[1::2], strict=True)]
    found = findings(write(tmp_path / "a.mkv", fields))
    assert (found.scan, found.field_order) == ("interlaced", "tt")
