import math

import pytest
import torch

from engine.ops.attention.rope import (
    counted_positions,
    geometric_frequencies,
    linear_frequencies,
    rotate,
    spread_positions,
    window_angles,
)


def test_frequencies_of_the_published_sizes() -> None:
    geometric, linear = geometric_frequencies(128), linear_frequencies(64)
    assert geometric.dtype == linear.dtype == torch.float32
    assert geometric.tolist() == pytest.approx([10000 ** (-2 * i / 42) for i in range(21)])
    assert linear.tolist() == pytest.approx([math.pi * (1 + 127 * i / 9) for i in range(10)])


def test_positions() -> None:
    found = [p.tolist() for p in counted_positions((2, 1, 3), first_time=7)]
    assert found == [[7, 8], [0], [0, 1, 2]]
    assert [p.tolist() for p in spread_positions((1, 2, 3))] == [[-1], [-1, 1], [-1, 0, 1]]


def test_angles_are_time_then_height_then_width_for_tokens_with_width_innermost() -> None:
    frequencies = torch.tensor([1.0, 10.0])
    angles = window_angles(counted_positions((2, 1, 3), first_time=5), frequencies)
    assert angles.shape == (6, 6)
    assert angles[4].tolist() == [6, 60, 0, 0, 1, 10]


def test_neighbouring_channels_turn_together_and_the_last_ones_stay() -> None:
    x = torch.tensor([[[1.0, 0.0, 0.0, 1.0, 5.0, 6.0]]])
    turned = rotate(x, torch.tensor([[math.pi / 2, math.pi / 2]]))
    torch.testing.assert_close(turned, torch.tensor([[[0.0, 1.0, -1.0, 0.0, 5.0, 6.0]]]))


def test_half_precision_is_rounded_once() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        x, angles = torch.randn(5, 2, 16).to(dtype), 100 * torch.randn(5, 6)
        turned = rotate(x, angles)
        assert turned.dtype == dtype
        assert torch.equal(turned, rotate(x.float(), angles).to(dtype))
