"""Cropping that a container states is applied to every frame."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from engine.core.geometry import Margins, Size
from engine.protocol.media import VideoInfo
from engine.video.read.examination import examined
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe
from tests.helpers.clips import make_clip
from tools.reports.fidelity_cropping import crop_mkv, crop_mp4

FRAME, PART, MARGINS = (192, 108), Size(160, 92), Margins(16, 8, 16, 8)
SIZE = Size(*FRAME)
TAGS = {"matrix": "bt709", "range": "tv", "primaries": "bt709", "transfer": "bt709"}


def film(path: Path, **changes: object) -> Path:
    return make_clip(path, size=FRAME, tags=TAGS, **changes)


def pixels(video: VideoInfo) -> tuple[Size, Margins, Fraction]:
    return video.size, video.cropped, video.sample_aspect


@pytest.mark.parametrize(
    ("display", "sar", "aspect"),
    [
        (None, None, Fraction(1)),
        ((160, 92), None, Fraction(1)),
        (FRAME, None, Fraction(1)),  # of the frame before it was cropped
        ((320, 92), None, Fraction(2)),
        ((4, 3), None, Fraction(23, 30)),  # any other one: that of the part
        ((384, 108), Fraction(2), Fraction(2)),
    ],
)
def test_matroska_crops_and_keeps_the_shape_of_pixels(tmp_path, display, sar, aspect):
    path = crop_mkv(film(tmp_path / "a.mkv", sar=sar), SIZE, MARGINS, display)
    assert pixels(probe(path).video) == (PART, MARGINS, aspect)


@pytest.mark.parametrize(
    ("aperture", "sar", "margins"),
    [
        ((Fraction(160), 92), None, MARGINS),
        ((Fraction(160), 92, 4, -3), None, Margins(20, 5, 12, 11)),
        ((Fraction(481, 3), 108), None, Margins(15, 0, 16, 0)),  # no whole number, as in DV
        ((Fraction(160), 92), Fraction(16, 11), MARGINS),
    ],
)
@pytest.mark.parametrize("suffix", [".mp4", ".mov"])
def test_a_clean_aperture_crops(tmp_path, suffix, aperture, sar, margins):
    path = crop_mp4(film(tmp_path / f"a{suffix}", sar=sar), *aperture)
    expected = (margins.inside(SIZE), margins, sar or Fraction(1))
    assert pixels(probe(path).video) == expected


@pytest.mark.parametrize("chroma", ["yuv420p", "yuv422p", "yuv444p"])
@pytest.mark.parametrize("margins", [MARGINS, Margins(4, 0, 0, 6), Margins(3, 5, 2, 1)])
def test_every_reader_sees_the_same_part(tmp_path, chroma, margins):
    path = film(tmp_path / "a.mkv", frames=3, pixel_format=chroma)
    with FrameReader(probe(path)) as reader:
        whole = list(reader)
    media = examined(probe(crop_mkv(path, SIZE, margins)))
    with FrameReader(media) as reader:
        part = list(reader)
    assert media.findings is not None
    assert media.findings.frames == 3
    across, down = 1 + (chroma != "yuv444p"), 1 + (chroma == "yuv420p")
    for before, after in zip(whole, part, strict=True):
        for number, (old, new) in enumerate(zip(before.planes, after.planes, strict=True)):
            x, y = (across, down) if number else (1, 1)
            top, left = margins.top // y, margins.left // x
            assert new.shape == (-(-media.video.size.height // y), -(-media.video.size.width // x))
            assert np.array_equal(new, old[top : top + new.shape[0], left : left + new.shape[1]])


@pytest.mark.parametrize(
    "aperture", [(192, 108), (0, 0), (-8, 92), (4000, 92), (160, 92, 17), (160, 92, 0, -9)]
)
def test_an_aperture_that_is_no_part_of_the_frame_does_not_count(tmp_path, aperture):
    path = crop_mp4(film(tmp_path / "a.mp4"), Fraction(aperture[0]), *aperture[1:])
    video = probe(path).video
    assert (video.size, video.cropped) == (Size(*FRAME), Margins())
