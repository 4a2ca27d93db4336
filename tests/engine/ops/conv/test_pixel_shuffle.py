"""Channels into pixels and frames."""

from __future__ import annotations

import pytest
import torch

from engine.ops.conv.pixel_shuffle import depth_to_space


@pytest.mark.parametrize("time", [1, 2])
@pytest.mark.parametrize("space", [2, 3])
def test_every_channel_goes_where_the_description_says(time: int, space: int) -> None:
    deep, batch, length, height, width = 3, 2, 2, 3, 2
    frames = torch.rand(batch, space * space * time * deep, length, height, width)
    result = depth_to_space(frames, time=time, space=space)
    assert result.shape == (batch, deep, time * length, space * height, space * width)
    for index in range(frames.shape[1]):
        rest, channel = divmod(index, deep)
        rest, st = divmod(rest, time)
        sy, sx = divmod(rest, space)
        got = result[:, channel, st::time, sy::space, sx::space]
        assert torch.equal(got, frames[:, index])


def test_the_result_is_contiguous() -> None:
    assert depth_to_space(torch.rand(1, 16, 2, 3, 3), time=2).is_contiguous()
