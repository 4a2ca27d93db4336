"""Smaller pictures in linear light, against an independent computation in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.core.geometry import Size
from engine.ops.colour.spaces import to_light
from engine.ops.precision import exact_arithmetic
from engine.ops.resize import resize, resize_in_light

Array = NDArray[np.float64]
GAMMA = 2.4
SIZES = [Size(150, 100), Size(225, 150), Size(300, 71), Size(131, 200), Size(71, 37)]


def picture(width: int = 300, height: int = 200) -> Tensor:
    """A zone plate up to the finest lines, letters of white and black, and noise."""
    y, x = np.mgrid[:height, :width]
    plate = 0.5 + 0.5 * np.cos(np.pi * (x**2 + y**2) / (2 * width))
    bars = ((x // 7 + y // 11) % 3 == 0).astype(np.float64)
    noise = np.random.default_rng(3).random((height, width))
    return torch.from_numpy(np.stack([plate, bars, noise])[None]).float()


def lanczos(away: Array) -> Array:
    return np.where(np.abs(away) < 3, np.sinc(away) * np.sinc(away / 3), 0)


def matrix(length: int, count: int) -> Array:
    """Weights of every pixel in every result, [count, length]."""
    centres = (np.arange(count) + 0.5) * length / count
    away = (np.arange(length) + 0.5 - centres[:, None]) * count / length
    weights = lanczos(away)
    return weights / weights.sum(1, keepdims=True)


def windows(length: int, count: int) -> list[slice]:
    """Pixels that no result may leave the range of: those beneath the middle lobe."""
    ratio = length / count
    span = min(length, math.ceil(2 * ratio))
    firsts = (math.floor((index - 0.5) * ratio + 0.5) for index in range(count))
    inside = (min(max(first, 0), length - span) for first in firsts)
    return [slice(first, first + span) for first in inside]


def expected(frames: Tensor, size: Size) -> Array:
    """In float64, pixel by pixel where the range is limited."""
    values = frames[0].double().numpy()
    light = np.sign(values) * np.abs(values) ** GAMMA
    down, across = matrix(light.shape[1], size.height), matrix(light.shape[2], size.width)
    made = np.einsum("ih,chw,jw->cij", down, light, across, optimize=True)
    made = np.sign(made) * np.abs(made) ** (1 / GAMMA)
    for i, rows in enumerate(windows(values.shape[1], size.height)):
        for j, columns in enumerate(windows(values.shape[2], size.width)):
            part = values[:, rows, columns]
            made[:, i, j] = np.clip(made[:, i, j], part.min((1, 2)), part.max((1, 2)))
    return made


def mean_light(frames: Tensor) -> float:
    return float((frames.double() ** GAMMA).mean())


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_it_equals_the_same_in_float64(size: Size) -> None:
    """Results of several bands, so that their seams are seen too."""
    frames = picture()
    error = resize_in_light(frames, size, "bt709")[0].double().numpy() - expected(frames, size)
    psnr = -10 * math.log10(float((error**2).mean()))
    print(f"\n{size}: {psnr:.1f} dB, at most {np.abs(error).max():.1e}")
    assert psnr > 130
    assert np.abs(error).max() < 1e-4


@pytest.mark.parametrize("pattern", ["checker", "columns", "rows"])
def test_fine_lines_keep_their_light(pattern: str) -> None:
    y, x = np.mgrid[:96, :128]
    lines = {"checker": (x + y) % 2, "columns": x % 2, "rows": y % 2}[pattern]
    frames = torch.from_numpy(lines).float().expand(1, 3, -1, -1)
    small = resize_in_light(frames, Size(64, 48), "bt709")
    assert mean_light(small) == pytest.approx(0.5, rel=0.01)
    in_code_values = resize(frames, Size(64, 48))
    assert mean_light(in_code_values) < 0.4 * mean_light(small), "what averaged code values lose"


def test_half_of_a_picture_lies_where_the_whole_lay() -> None:
    """A result of two pixels is between them; left and right are alike."""
    ramp = torch.linspace(0.2, 1.0, 256)  # in light
    frames = ramp.expand(1, 3, 64, -1)
    half = resize_in_light(frames, Size(128, 32), "linear")[0, 0, 16]
    between = (ramp[0::2] + ramp[1::2]) / 2
    torch.testing.assert_close(half[4:-4], between[4:-4], atol=1e-5, rtol=0)
    flipped = resize_in_light(picture().flip(-1), Size(150, 100), "bt709").flip(-1)
    torch.testing.assert_close(flipped, resize_in_light(picture(), Size(150, 100), "bt709"))


def test_nothing_shines_next_to_a_bright_edge() -> None:
    frames = torch.zeros(1, 3, 64, 160)
    frames[..., 61:100] = 1.0
    small = resize_in_light(frames, Size(80, 32), "bt709")
    assert small.min() == 0
    assert small.max() == 1
    assert (small[..., :29] == 0).all(), "ringing would be at 0.2 of white here"
    assert (small[..., 33:48] == 1).all()


@pytest.mark.parametrize("transfer", ["bt709", "iec61966-2-1", "smpte2084", "arib-std-b67"])
def test_flat_colours_stay_bit_for_bit_also_outside_of_rgb(transfer: str) -> None:
    colours = torch.tensor([-0.07, 0.0, 1e-4, 0.31, 0.5, 1.0, 1.09])
    frames = colours[None, :, None, None].expand(1, -1, 90, 150).contiguous()
    small = resize_in_light(frames, Size(100, 41), transfer)
    assert (small == colours[None, :, None, None]).all()


def test_a_side_that_grows_is_left_to_resize() -> None:
    frames = picture()
    narrow = resize_in_light(frames, Size(200, 200), "bt709")
    both = resize_in_light(frames, Size(200, 333), "bt709")
    torch.testing.assert_close(both, resize(narrow, Size(200, 333)))
    assert resize_in_light(frames, Size(300, 200), "bt709") is frames
    larger = resize_in_light(frames, Size(310, 210), "bt709")
    assert torch.equal(larger, resize(frames, Size(310, 210)))


def test_a_picture_of_a_few_pixels() -> None:
    frames = torch.rand(2, 1, 3, 2)
    assert resize_in_light(frames, Size(1, 1), "bt709").shape == (2, 1, 1, 1)
    assert torch.equal(resize_in_light(frames, Size(2, 3), "bt709"), frames)


@pytest.mark.gpu
@pytest.mark.parametrize("transfer", ["bt709", "iec61966-2-1", "smpte2084", "arib-std-b67"])
def test_a_gpu_makes_the_same(transfer: str) -> None:
    """Code values; of PQ also light, as near black a rounding of light is many steps of code."""
    frames = picture()
    wanted = resize_in_light(frames, Size(150, 77), transfer)
    with exact_arithmetic():
        found = resize_in_light(frames.to("cuda"), Size(150, 77), transfer).cpu()
    if transfer == "smpte2084":
        dark = to_light(wanted, transfer) < 1e-4  # 1 nit of 10,000
        lights = (to_light(values[dark], transfer) for values in (found, wanted))
        torch.testing.assert_close(*lights, atol=1e-6, rtol=0)
        found[dark] = wanted[dark]
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)
