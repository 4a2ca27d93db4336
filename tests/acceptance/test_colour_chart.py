"""A chart of in-gamut patches goes through the program; only rounding may touch its colours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.helpers.program import NEEDS_FFMPEG, ffmpeg, tags_of, upscale

pytestmark = [pytest.mark.slow, NEEDS_FFMPEG]
SIDE, COLUMNS, ROWS, EDGE = 24, 12, 8, 6  # px of a patch, patches, px left off at its borders
WIDTH, HEIGHT = SIDE * COLUMNS, SIDE * ROWS
MEAN_LIMIT, WORST_LIMIT = 0.6, 1.5  # code values of 8 bit
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to write colours: H.273 by its names in ffmpeg, its two luma weights."""

    name: str
    matrix: str
    primaries: str
    transfer: str
    red: float
    blue: float


KINDS = (
    Kind("BT.601", "smpte170m", "smpte170m", "smpte170m", 0.299, 0.114),
    Kind("BT.709", "bt709", "bt709", "bt709", 0.2126, 0.0722),
    Kind("BT.2020", "bt2020nc", "bt2020", "bt2020-10", 0.2627, 0.0593),
)
SCALE_NAMES = {"smpte170m": "smpte170m", "bt709": "bt709", "bt2020nc": "bt2020"}


def patches() -> Array:
    """RGB of each patch [ROWS * COLUMNS, 3], 0..1: corners of the cube, greys, and many between."""
    random = np.random.default_rng(20260101)
    corners = np.array([[r, g, b] for r in (0, 1) for g in (0, 1) for b in (0, 1)], float)
    greys = np.repeat(np.linspace(0, 1, 12)[:, None], 3, axis=1)
    rest = random.random((ROWS * COLUMNS - len(corners) - len(greys), 3))
    return np.concatenate([corners, greys, rest])


def chart() -> NDArray[np.uint16]:
    """The patches as a picture, RGB of 16 bit."""
    grid = patches().reshape(ROWS, COLUMNS, 3)
    picture = np.repeat(np.repeat(grid, SIDE, axis=0), SIDE, axis=1)
    return np.round(picture * 65535).astype("<u2")


def write_chart(path: Path, kind: Kind, *, full: bool, bits: int) -> None:
    """Let ffmpeg write the chart as one frame of lossless 4:2:0."""
    raw = path.with_suffix(".rgb")
    raw.write_bytes(chart().tobytes())
    span = "pc" if full else "tv"
    scale = (
        f"scale=out_color_matrix={SCALE_NAMES[kind.matrix]}:out_range={span}"
        ":flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp"
    )
    ffmpeg(
        *("-f", "rawvideo", "-pix_fmt", "rgb48le", "-s", f"{WIDTH}x{HEIGHT}", "-i", raw),
        *("-vf", f"{scale},format={pixel_format(bits)}", "-c:v", "ffv1"),
        *("-color_range", span, "-colorspace", kind.matrix),
        *("-color_primaries", kind.primaries, "-color_trc", kind.transfer, path),
    )


def pixel_format(bits: int) -> str:
    return "yuv420p" if bits == 8 else "yuv420p10le"


def read_patches(path: Path, kind: Kind, *, full: bool, bits: int) -> Array:
    """RGB of each patch's interior in 8-bit code values, by the formula of the standard."""
    raw = ffmpeg(
        "-i", path, "-frames:v", "1", "-pix_fmt", pixel_format(bits), "-f", "rawvideo", "-"
    )
    codes = np.frombuffer(raw, "<u2" if bits == 10 else np.uint8).astype(float)
    luma, chroma = np.split(codes, [WIDTH * HEIGHT])
    y = _interiors(luma.reshape(1, HEIGHT, WIDTH))[0]
    u, v = _interiors(chroma.reshape(2, HEIGHT // 2, WIDTH // 2))
    unit = 1 << (bits - 8)
    top = (1 << bits) - 1
    y = y / top if full else (y - 16 * unit) / (219 * unit)
    u, v = ((c - 128 * unit) / (top if full else 224 * unit) for c in (u, v))
    red = y + 2 * (1 - kind.red) * v
    blue = y + 2 * (1 - kind.blue) * u
    green = (y - kind.red * red - kind.blue * blue) / (1 - kind.red - kind.blue)
    return 255 * np.stack([red, green, blue], axis=1)


def _interiors(planes: Array) -> Array:
    """Mean of each patch but its borders, [planes, patches]."""
    count, height, width = planes.shape
    side, edge = height // ROWS, height // ROWS * EDGE // SIDE
    cells = planes.reshape(count, ROWS, side, COLUMNS, width // COLUMNS)
    inside = cells[:, :, edge:-edge, :, edge:-edge]
    return np.asarray(inside.mean(axis=(2, 4)).reshape(count, -1))


@pytest.mark.parametrize("bits", [8, 10])
@pytest.mark.parametrize("full", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_chart_goes_through_unchanged(kind: Kind, full: bool, bits: int, tmp_path: Path) -> None:
    source, result = tmp_path / "chart.mkv", tmp_path / "result.mkv"
    write_chart(source, kind, full=full, bits=bits)
    upscale(source, result, "--model", "none", "--set", "codec=ffv1")
    assert tags_of(result) == tags_of(source)
    how = {"full": full, "bits": bits}
    before, after = (read_patches(path, kind, **how) for path in (source, result))
    own = np.abs(after - before)  # what the program did
    assert own.mean() < MEAN_LIMIT
    assert own.max() <= WORST_LIMIT
    assert np.abs(after - 255 * patches()).mean() < MEAN_LIMIT


@pytest.mark.parametrize("bits", [8, 10])
@pytest.mark.parametrize("kind", KINDS[:2], ids=lambda kind: kind.name)
def test_chart_of_numbers_becomes_the_chart_of_colours(
    kind: Kind, bits: int, tmp_path: Path
) -> None:
    """To RGB and no way back, so that two wrongs cannot make a right."""
    source, result = tmp_path / "chart.mkv", tmp_path / "chart_%04d.png"
    write_chart(source, kind, full=False, bits=bits)
    upscale(source, result, "--model", "none")
    (written,) = (path for path in tmp_path.rglob("*.png") if path.is_file())
    picture_file = written.replace(tmp_path / "picture.png")
    raw = ffmpeg("-i", picture_file, "-pix_fmt", "rgb48le", "-f", "rawvideo", "-")
    picture = np.frombuffer(raw, "<u2").reshape(HEIGHT, WIDTH, 3).transpose(2, 0, 1) / 257.0
    off = np.abs(_interiors(picture).T - 255 * patches())
    assert off.mean() < MEAN_LIMIT
    assert off.max() <= WORST_LIMIT


@pytest.mark.parametrize("bits", [8, 10])
def test_picture_of_the_chart_becomes_video(bits: int, tmp_path: Path) -> None:
    """From RGB and no way back."""
    raw, source, result = tmp_path / "a.rgb", tmp_path / "chart.png", tmp_path / "result.mkv"
    raw.write_bytes(chart().tobytes())
    ffmpeg(
        *("-f", "rawvideo", "-pix_fmt", "rgb48le", "-s", f"{WIDTH}x{HEIGHT}", "-i", raw),
        *("-pix_fmt", "rgb48be", source),
    )
    words = ("--set", "codec=ffv1", "--set", "chroma=420", "--set", f"bit_depth={bits}")
    upscale(source, result, "--model", "none", *words)
    tags = tags_of(result)
    kind = next(k for k in KINDS if k.matrix == tags["color_space"])
    found = read_patches(result, kind, full=tags["color_range"] == "pc", bits=bits)
    off = np.abs(found - 255 * patches())
    assert off.mean() < MEAN_LIMIT
    assert off.max() <= WORST_LIMIT + (0.1 if bits == 8 else 0)  # two 8-bit roundings reach 1.59
