"""Predicted memory against what torch really takes."""

from __future__ import annotations

import pytest
import torch

from engine.core.geometry import Size
from engine.models.lite.cost import lite_cost, lite_multiplications
from engine.models.lite.files import LiteConfig
from engine.models.lite.net import LiteNet


def measured_peak(net: LiteNet, frames: torch.Tensor) -> int:
    """Largest sum of live bytes in one call, from the allocator's own record."""
    with torch.inference_mode():
        net(frames)
        with torch.profiler.profile(profile_memory=True) as profile:
            net(frames)
    live = peak = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak


@pytest.mark.parametrize("scale", [2, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_predicted_peak_is_close_to_the_measured_one(scale: int, dtype: torch.dtype) -> None:
    net = LiteNet(LiteConfig(scale=scale)).requires_grad_(False)
    net = net.to(dtype=dtype, memory_format=torch.channels_last)
    cost = lite_cost(net.config, Size(192, 160), 2, dtype.itemsize)
    measured = measured_peak(net, torch.rand(2, 3, 160, 192))
    assert measured <= cost.peak_bytes
    assert cost.activations <= 1.15 * measured


def test_cost_grows_with_frames_and_area() -> None:
    config = LiteConfig(scale=2)
    one, two = (lite_cost(config, Size(64, 48), n) for n in (1, 2))
    assert two.activations == 2 * one.activations
    assert two.weights == one.weights


def test_multiplications_count_the_padded_tile() -> None:
    config = LiteConfig(scale=2, channels=4, layers=0)
    padded = (10 + 4) * (8 + 4)
    assert lite_multiplications(config, Size(10, 8)) == padded * 9 * (12 + 48) + 80 * 900
