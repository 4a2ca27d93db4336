"""Predicted memory against what torch really takes."""

from __future__ import annotations

import pytest
import torch

from engine.core.geometry import Size
from engine.models.lite.cost import lite_cost, lite_multiplications
from engine.models.lite.files import LiteConfig
from engine.models.lite.net import LiteNet
from tests.helpers.memory import BFLOAT16, Allocations


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=BFLOAT16)])
def test_predicted_peak_is_close_to_the_measured_one(dtype: torch.dtype) -> None:
    for scale, seen in ((2, 1), (2, 3), (4, 1), (4, 3)):
        net = LiteNet(LiteConfig(scale=scale, frames=seen)).requires_grad_(False)
        net = net.to(dtype=dtype, memory_format=torch.channels_last)
        frames = [torch.rand(2, 3, 160, 192) for _ in range(seen)]
        with torch.inference_mode():
            net(*frames)
            with Allocations() as found:
                net(*frames)
        cost = lite_cost(net.config, Size(192, 160), 2, dtype.itemsize)
        assert found.peak_bytes <= cost.weights + cost.working
        assert cost.activations <= 1.15 * found.peak_bytes, (scale, seen, dtype)


def test_cost_grows_with_frames_and_multiplications_count_the_padded_tile() -> None:
    config = LiteConfig(scale=2)
    one, two = (lite_cost(config, Size(64, 48), n) for n in (1, 2))
    assert two.activations == 2 * one.activations
    assert two.weights == one.weights
    padded = (10 + 4) * (8 + 4)
    tiny = LiteConfig(scale=2, channels=4, layers=0)
    assert lite_multiplications(tiny, Size(10, 8)) == padded * 9 * (12 + 48) + 80 * 900
