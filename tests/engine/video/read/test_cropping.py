"""Cropping that a container states is applied to every frame."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from engine.core.geometry import Margins, Size
from engine.protocol.media import VideoInfo
from engine.video.read.ebml import EbmlElement, children
from engine.video.read.examination import examined
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe
from tests.helpers.clips import make_clip

FRAME, PART, MARGINS = (192, 108), Size(160, 92), Margins(16, 8, 16, 8)
TAGS = {"matrix": "bt709", "range": "tv", "primaries": "bt709", "transfer": "bt709"}


def crop_mkv(path: Path, margins: Margins, display: tuple[int, int] | None = None) -> Path:
    """Write cropping into the header of an MKV, in room that its muxer left before the tracks."""
    data = bytearray(path.read_bytes())

    def child(parent: EbmlElement, name: int) -> EbmlElement:
        inside = children(data, parent.content, parent.end)
        return next(one for one in inside if one.name == name)

    segment = child(EbmlElement(0, 0, 0, len(data)), 0x18538067)
    room = child(segment, 0xEC)
    parents = [child(segment, 0x1654AE6B)]
    for name in (0xAE, 0xE0):
        parents.append(child(parents[-1], name))
    numbers = dict(zip((0x54CC, 0x54BB, 0x54DD, 0x54AA), _sides(margins), strict=True))
    numbers |= {0xB0: FRAME[0], 0xBA: FRAME[1]}
    if display is not None:
        numbers |= dict(zip((0x54B0, 0x54BA), display, strict=True))
    content = b"".join(
        name.to_bytes((name.bit_length() + 7) // 8, "big") + b"\x82" + value.to_bytes(2, "big")
        for name, value in numbers.items()
    )
    more = len(content) - (parents[-1].end - parents[-1].content)
    for one, change in ((room, -more), *((parent, more) for parent in parents)):
        name_bytes = (one.name.bit_length() + 7) // 8
        width = one.content - one.start - name_bytes
        size = (1 << 7 * width) | (one.end - one.content + change)
        data[one.start + name_bytes : one.content] = size.to_bytes(width, "big")
    data[parents[-1].content : parents[-1].end] = content
    data[min(room.end, room.end - more) : room.end] = bytes(max(0, -more))
    path.write_bytes(data)
    return path


def crop_mp4(path: Path, width: Fraction, height: int, across: int = 0, down: int = 0) -> Path:
    """Give the video of an MP4, whose index comes last, a clean aperture."""
    values = (width.numerator, width.denominator, height, 1, across, 1, down, 1)
    box = _box(b"clap", b"".join(value.to_bytes(4, "big", signed=True) for value in values))
    data = bytearray(path.read_bytes())
    at = 0
    for name in (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"avc1"):
        at = data.index(name, at) - 4
        data[at : at + 4] = (int.from_bytes(data[at : at + 4], "big") + len(box)).to_bytes(4, "big")
    after = at + 8 + 78
    data[after:after] = box
    path.write_bytes(data)
    return path


def _box(name: bytes, content: bytes) -> bytes:
    return (8 + len(content)).to_bytes(4, "big") + name + content


def _sides(margins: Margins) -> tuple[int, int, int, int]:
    return margins.left, margins.top, margins.right, margins.bottom


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
    path = crop_mkv(film(tmp_path / "a.mkv", sar=sar), MARGINS, display)
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
    expected = (margins.inside(Size(*FRAME)), margins, sar or Fraction(1))
    assert pixels(probe(path).video) == expected


@pytest.mark.parametrize("chroma", ["yuv420p", "yuv422p", "yuv444p"])
@pytest.mark.parametrize("margins", [MARGINS, Margins(4, 0, 0, 6), Margins(3, 5, 2, 1)])
def test_every_reader_sees_the_same_part(tmp_path, chroma, margins):
    path = film(tmp_path / "a.mkv", frames=3, pixel_format=chroma)
    with FrameReader(probe(path)) as reader:
        whole = list(reader)
    media = examined(probe(crop_mkv(path, margins)))
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
