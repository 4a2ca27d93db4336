"""Doubling and convolving in one step equals the two steps, at the borders too."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.ops.conv import subpixel
from engine.ops.conv.subpixel import NearestFold
from tests.helpers.seedvr2 import random_frames

LAYOUTS = (torch.channels_last, torch.contiguous_format)


def parts(inputs: int = 4, outputs: int = 3) -> tuple[Tensor, Tensor]:
    return random_frames(outputs, inputs, 3, 3, seed=1), random_frames(outputs, seed=2)


def in_two_steps(frames: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    doubled = F.interpolate(frames, scale_factor=2, mode="nearest")
    return F.conv2d(doubled, weight, bias, padding=1)


def enlarged(frames: Tensor, weight: Tensor, bias: Tensor, *, chunked: bool = True) -> Tensor:
    fold = NearestFold(weight, bias, frames.dtype)
    count, _, height, width = frames.shape
    out = frames.new_full((count, fold.channels, 2 * height, 2 * width), torch.nan)
    out = out.contiguous(memory_format=torch.channels_last)
    fold.write(frames, out, chunked=chunked)
    return out


@settings(max_examples=25, deadline=None)
@given(
    size=st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6)),
    channels=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    layout=st.sampled_from(LAYOUTS),
    chunked=st.booleans(),
)
def test_it_equals_its_two_steps(
    size: tuple[int, int, int],
    channels: tuple[int, int],
    layout: torch.memory_format,
    chunked: bool,
) -> None:
    count, height, width = size
    frames = random_frames(count, channels[0], height, width).contiguous(memory_format=layout)
    weight, bias = parts(*channels)
    found = enlarged(frames, weight, bias, chunked=chunked)
    wanted = in_two_steps(frames, weight, bias)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_zeros_around_the_doubled_frame_are_no_copies_of_its_edge() -> None:
    frames, (weight, bias) = random_frames(1, 4, 3, 3), parts()
    doubled = F.interpolate(frames, scale_factor=2, mode="nearest")
    copied = F.conv2d(F.pad(doubled, (1, 1, 1, 1), mode="replicate"), weight, bias)
    found = enlarged(frames, weight, bias)
    assert (found - copied).abs().amax((0, 1))[0].min() > 1e-3
    torch.testing.assert_close(found[:, :, 1:-1, 1:-1], copied[:, :, 1:-1, 1:-1])


def test_it_writes_every_second_frame_of_a_buffer() -> None:
    frames, (weight, bias) = random_frames(2, 4, 3, 2), parts()
    buffer = torch.zeros(5, 3, 6, 4, dtype=torch.float64).to(memory_format=torch.channels_last)
    NearestFold(weight, bias, torch.float64).write(frames, buffer[1::2])
    torch.testing.assert_close(buffer[1::2], in_two_steps(frames, weight, bias))
    assert not buffer[::2].any()


def test_frames_come_in_chunks_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    frames, (weight, bias) = random_frames(5, 4, 3, 2), parts()
    monkeypatch.setattr(subpixel, "_PHASE_BYTES", 2 * 4 * 3 * (4 * 3) * 8)  # those of two frames
    sizes = []
    convolve = F.conv2d
    monkeypatch.setattr(F, "conv2d", lambda *given: sizes.append(len(given[0])) or convolve(*given))
    found = enlarged(frames, weight, bias)
    assert sizes == [2, 2, 1]
    monkeypatch.undo()
    torch.testing.assert_close(found, in_two_steps(frames, weight, bias))


def test_no_frames_give_none() -> None:
    assert enlarged(random_frames(0, 4, 3, 2), *parts(), chunked=False).shape == (0, 3, 6, 4)


def test_another_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="not a 3x3 kernel"):
        NearestFold(random_frames(3, 4, 2, 2), random_frames(3), torch.float64)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_in_half_precision_the_table_is_rounded_once_and_the_result_once(
    dtype: torch.dtype,
) -> None:
    weight, bias = (value.to(dtype) for value in parts(8, 4))
    frames = random_frames(2, 8, 16, 12, dtype=dtype).contiguous(memory_format=torch.channels_last)
    exact = in_two_steps(frames.double(), weight.double(), bias.double())
    errors = [
        (found.double() - exact).square().mean().sqrt().item()
        for found in (
            enlarged(frames, weight.float(), bias.float()),
            in_two_steps(frames, weight, bias),
        )
    ]
    assert errors[0] <= 1.6 * errors[1], errors
