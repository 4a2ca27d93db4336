import itertools
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.core.geometry import Size
from engine.protocol.media import Chroma, ColourTags, subsampling
from engine.video.colour import ColourSpec, colour_spec, from_rgb, to_rgb
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe
from tests.helpers.plans import a_media

WEIGHTS = {
    "bt709": (0.2126, 0.0722),
    "smpte170m": (0.299, 0.114),
    "fcc": (0.30, 0.11),
    "smpte240m": (0.212, 0.087),
    "bt2020nc": (0.2627, 0.0593),
}


def spec(
    matrix: str = "bt709",
    *,
    full: bool = False,
    bits: int = 8,
    chroma: Chroma = "444",
    location: str = "left",
    alpha: bool = False,
) -> ColourSpec:
    return ColourSpec(matrix, full, bits, chroma, location if chroma != "444" else "", alpha)


def random_planes(how: ColourSpec, height: int, width: int) -> list[torch.Tensor]:
    across, down = subsampling(how.chroma)
    shapes = [(height, width)]
    if how.chroma != "gray":
        shapes += [(-(-height // down), -(-width // across))] * 2
    shapes += [(height, width)] * how.has_alpha
    kind = np.uint8 if how.bit_depth == 8 else np.uint16
    draw = np.random.default_rng(5)
    values = [draw.integers(0, how.peak + 1, (2, *shape)).astype(kind) for shape in shapes]
    return [torch.from_numpy(each) for each in values]


def assert_comes_back(planes: list[torch.Tensor], rgb: torch.Tensor, how: ColourSpec) -> None:
    for before, after in zip(planes, from_rgb(rgb, how), strict=True):
        assert (after.dtype, after.shape) == (before.dtype, before.shape)
        assert torch.equal(after.int(), before.int()), how


def reference_rgb(planes: list[np.ndarray], how: ColourSpec) -> np.ndarray:
    """The formulas of BT.601, 709 and 2020 in float64, independent of the product."""
    y, u, v = (plane.astype(np.float64) for plane in planes)
    step = 2 ** (how.bit_depth - 8)
    if how.full_range:
        y, u, v = (y / how.peak, *((c - 128 * step) / how.peak for c in (u, v)))
    else:
        y, u, v = (
            (y - 16 * step) / (219 * step),
            *((c - 128 * step) / (224 * step) for c in (u, v)),
        )
    if how.matrix == "ycgco":
        return np.stack([y - u + v, y + u, y - u - v], axis=1)
    red, blue = WEIGHTS[how.matrix]
    r, b = y + 2 * (1 - red) * v, y + 2 * (1 - blue) * u
    return np.stack([r, (y - red * r - blue * b) / (1 - red - blue), b], axis=1)


MATRICES = [*WEIGHTS, "ycgco"]


def test_rgb_of_444_follows_the_formulas_of_the_standards_and_comes_back_bit_for_bit() -> None:
    for matrix, full, bits in itertools.product(MATRICES, (False, True), (8, 9, 10, 12, 14, 16)):
        how = spec(matrix, full=full, bits=bits)
        planes = random_planes(how, 40, 56)
        rgb = to_rgb(planes, how, "cpu")
        expected = reference_rgb([p.numpy() for p in planes], how)
        np.testing.assert_allclose(rgb.numpy(), expected, atol=2e-6, rtol=0, err_msg=str(how))
        assert_comes_back(planes, rgb, how)


REDUCED: tuple[Chroma, ...] = ("420", "422", "440", "411", "410")
OFFSETS = {  # of the first chroma sample from the first luma sample, in luma samples
    "left": (0.0, 0.5),
    "center": (0.5, 0.5),
    "topleft": (0.0, 0.0),
    "top": (0.5, 0.0),
    "bottomleft": (0.0, 1.0),
    "bottom": (0.5, 1.0),
}


def test_luma_and_flat_chroma_come_back_bit_for_bit() -> None:
    sizes = ((21, 33), (32, 48), (1, 1), (2, 3), (5, 2))
    for chroma, location, size in itertools.product(REDUCED, OFFSETS, sizes):
        for bits in (8, 10):
            how = spec(chroma=chroma, location=location, bits=bits)
            planes = random_planes(how, *size)
            for plane, value in zip(planes[1:], (100, 177), strict=True):
                plane.copy_(torch.full_like(plane.int(), value))
            assert_comes_back(planes, to_rgb(planes, how, "cpu"), how)


def test_chroma_is_where_its_location_states() -> None:
    """A ramp sampled at the stated positions becomes the same ramp at full size, and back."""
    for location, (dx, dy) in OFFSETS.items():
        how = spec(chroma="420", location=location, full=True, bits=16)
        x, y = np.meshgrid(2 * np.arange(16) + dx, 2 * np.arange(12) + dy)
        ramp = np.rint(20000 + 400 * x + 300 * y).astype(np.uint16)
        luma = np.full((24, 32), 30000, np.uint16)
        planes = [torch.from_numpy(p[None]) for p in (luma, ramp, np.full_like(ramp, 32768))]
        blue = to_rgb(planes, how, "cpu")[0, 2].numpy()
        cb = (blue - 30000 / 65535) / (2 * (1 - 0.0722)) * 65535 + 32768
        fx, fy = np.meshgrid(np.arange(32), np.arange(24))
        inside = (slice(3, -3), slice(3, -3))
        np.testing.assert_allclose(cb[inside], (20000 + 400 * fx + 300 * fy)[inside], atol=2)
        back = from_rgb(to_rgb(planes, how, "cpu"), how)[1][0].numpy().astype(int)
        np.testing.assert_allclose(back[2:-2, 2:-2], ramp.astype(int)[2:-2, 2:-2], atol=2)


def test_footroom_headroom_and_colours_outside_rgb_are_kept_and_wilder_ones_cut() -> None:
    colours = ((1, 128, 128), (254, 128, 128), (100, 240, 16), (16, 255, 0))
    planes = [torch.tensor([[values]], dtype=torch.uint8) for values in zip(*colours, strict=True)]
    rgb = to_rgb(planes, spec(), "cpu")
    assert rgb.min() < -0.2
    assert rgb.max() > 1.05
    assert_comes_back(planes, rgb, spec())
    wild = from_rgb(torch.tensor([-9.0, 9.0]).view(1, 1, 1, 2).expand(1, 3, 1, 2), spec())
    assert wild[0].flatten().tolist() == [0, 255]


def test_gray_becomes_three_equal_channels_and_comes_back() -> None:
    for full, bits in ((True, 16), (False, 10)):
        how = ColourSpec("gray", full, bits, "gray", "", False)
        planes = random_planes(how, 9, 7)
        rgb = to_rgb(planes, how, "cpu")
        assert torch.equal(rgb[:, 0], rgb[:, 1])
        assert torch.equal(rgb[:, 0], rgb[:, 2])
        assert_comes_back(planes, rgb, how)


def test_alpha_is_kept_and_a_missing_one_is_opaque() -> None:
    layouts: tuple[tuple[str, Chroma], ...] = (("rgb", "rgb"), ("gray", "gray"), ("bt709", "420"))
    for matrix, chroma in layouts:
        how = ColourSpec(matrix, matrix != "bt709", 8, chroma, "left", True)
        planes = random_planes(how, 8, 8)
        rgba = to_rgb(planes, how, "cpu")
        assert rgba.shape == (2, 4, 8, 8)
        assert torch.equal(from_rgb(rgba, how)[-1], planes[-1])
        assert (from_rgb(rgba[:, :3], how)[-1] == 255).all()
        without = ColourSpec(matrix, matrix != "bt709", 8, chroma, "left", False)
        assert len(from_rgb(rgba, without)) == len(planes) - 1


def spec_of(size: Size = Size(64, 64), **video: Any) -> ColourSpec:
    return colour_spec(a_media(size=size, **video).video)


def test_untagged_films_are_601_in_sd_and_709_above() -> None:
    sizes = {(720, 576): "smpte170m", (1024, 576): "smpte170m", (1280, 720): "bt709"}
    for size, matrix in {**sizes, (1080, 480): "bt709"}.items():
        assert spec_of(Size(*size)).matrix == matrix
    assert spec_of(Size(720, 576), tags=ColourTags(matrix="bt709")).matrix == "bt709"
    assert spec_of(Size(9, 9), tags=ColourTags(matrix="bt470bg")).matrix == "smpte170m"


def test_range_and_chroma_location_follow_tags_and_formats() -> None:
    assert (spec_of().full_range, spec_of().chroma_location) == (False, "left")
    assert spec_of(tags=ColourTags(range="pc")).full_range
    jpeg = spec_of(pixel_format="yuvj420p", codec="mjpeg")
    assert (jpeg.full_range, jpeg.chroma_location) == (True, "center")
    assert spec_of(pixel_format="gray", chroma="gray").full_range
    png = spec_of(tags=ColourTags(range="tv"), pixel_format="rgb24", chroma="rgb")
    assert (png.matrix, png.full_range) == ("rgb", True)
    assert spec_of(tags=ColourTags(chroma_location="topleft")).chroma_location == "topleft"


PATCHES = [
    *((v, v, v) for v in (16, 52, 90, 128, 160, 200, 235)),
    *itertools.product((60, 128, 196), repeat=3),
    (115, 82, 68), (194, 150, 130), (98, 122, 157), (87, 108, 67), (133, 128, 177),
    (103, 189, 170), (214, 126, 44), (80, 91, 166), (193, 90, 99), (94, 60, 108),
    (157, 188, 64), (224, 163, 46), (56, 61, 150), (70, 148, 73), (175, 54, 60),
    (231, 199, 31), (187, 86, 149),
]  # fmt: skip
SIDE, ACROSS = 16, 8


def chart() -> np.ndarray:
    rows = -(-len(PATCHES) // ACROSS)
    picture = np.full((rows * SIDE, ACROSS * SIDE, 3), 128, np.uint8)
    for number, colour in enumerate(PATCHES):
        y, x = divmod(number, ACROSS)
        picture[y * SIDE : (y + 1) * SIDE, x * SIDE : (x + 1) * SIDE] = colour
    return picture


def patch_errors(rgb: np.ndarray) -> np.ndarray:
    """Difference of each patch's interior from its true colour, in code values of 8 bit."""
    errors = []
    for number, colour in enumerate(PATCHES):
        y, x = divmod(number, ACROSS)
        inner = rgb[:, y * SIDE + 5 : y * SIDE + 11, x * SIDE + 5 : x * SIDE + 11]
        errors.append(np.abs(inner * 255 - np.array(colour)[:, None, None]))
    return np.array(errors)


@pytest.mark.programs("ffmpeg")
@pytest.mark.parametrize(
    "kind",
    [
        "bt601 smpte170m tv yuv420p",
        "bt601 smpte170m pc yuv422p10le",
        "bt709 bt709 tv yuv444p",
        "bt709 bt709 pc yuv420p",
        "bt2020 bt2020nc tv yuv420p10le",
        "bt2020 bt2020nc pc yuv444p",
    ],
)
def test_a_chart_of_another_program_has_its_true_colours(tmp_path: Path, kind: str) -> None:
    matrix, tag, range_, pixel_format = kind.split()
    picture, film = chart(), tmp_path / "chart.mkv"
    height, width = picture.shape[:2]
    command = f"ffmpeg -v error -f rawvideo -pix_fmt rgb24 -s {width}x{height} -i - -vf".split()
    flags = "bicubic+accurate_rnd+full_chroma_int+full_chroma_inp"
    command += [f"scale=out_color_matrix={matrix}:out_range={range_}:flags={flags}"]
    command += f"-pix_fmt {pixel_format} -colorspace {tag} -color_range {range_} -c:v ffv1".split()
    subprocess.run([*command, str(film)], input=picture.tobytes(), check=True)
    media = probe(film)
    how = colour_spec(media.video)
    assert (how.matrix, how.full_range) == (tag, range_ == "pc")
    with FrameReader(media) as reader:
        planes = [torch.from_numpy(plane[None]) for plane in next(iter(reader)).planes]
    rgb = to_rgb(planes, how, "cpu")
    again = to_rgb(from_rgb(rgb, how), how, "cpu")
    for seen in (rgb, again):
        errors = patch_errors(seen[0].numpy())
        assert errors.mean() < 0.6
        assert errors.max() <= 1.5
