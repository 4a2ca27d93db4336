"""Predicted memory against what torch really takes."""

from __future__ import annotations

import pytest
import torch

from engine.core.geometry import Size
from engine.models.lite.cost import lite_cost, lite_multiplications, lite_passed_bytes
from engine.models.lite.files import LiteConfig
from engine.models.lite.net import LiteNet
from tests.helpers.memory import BFLOAT16, Allocations

LITE_PLUS = {"channels": 64, "layers": 16}


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=BFLOAT16)])
def test_predicted_peak_is_close_to_the_measured_one(dtype: torch.dtype) -> None:
    for scale, seen, wide in ((2, 1, 0), (2, 3, 0), (4, 1, 0), (4, 3, 0), (2, 1, 1), (4, 3, 1)):
        config = LiteConfig(scale=scale, frames=seen, **(LITE_PLUS if wide else {}))
        net = LiteNet(config).requires_grad_(False)
        net = net.to(dtype=dtype, memory_format=torch.channels_last)
        height, width = (80, 96) if wide else (160, 192)
        frames = [torch.rand(2, 3, height, width) for _ in range(seen)]
        with torch.inference_mode():
            net(*(frame[..., :8, :8] for frame in frames))  # its tables, made once
            with Allocations() as found:
                net(*frames)
        cost = lite_cost(net.config, Size(width, height), 2, dtype.itemsize)
        assert found.peak_bytes <= cost.weights + cost.working
        assert cost.activations <= 1.15 * found.peak_bytes, (config, dtype)


def test_cost_grows_with_frames_and_multiplications_count_the_padded_tile() -> None:
    config = LiteConfig(scale=2)
    one, two = (lite_cost(config, Size(64, 48), n) for n in (1, 2))
    assert two.activations == 2 * one.activations
    assert two.weights == one.weights
    tiny = LiteConfig(scale=2, channels=4, layers=0)
    padded = (10 + 2) * (8 + 2)  # what the first layer makes, and the second one shrinks
    assert lite_multiplications(tiny, Size(10, 8)) == 9 * (padded * 12 + 80 * 48) + 80 * 900
    assert lite_passed_bytes(tiny, Size(10, 8)) == 2 * 2 * (padded * 7 + 80 * 16)


def test_the_larger_network_has_600_000_products_a_pixel_in_files_of_a_megabyte() -> None:
    wide = Size(2000, 2000)
    for scale in (2, 4):
        config = LiteConfig(scale=scale, **LITE_PLUS)
        assert 590_000 < lite_multiplications(config, wide) / wide.pixels < 640_000
        assert lite_cost(config, wide, dtype_bytes=2).weights < 1.3e6
