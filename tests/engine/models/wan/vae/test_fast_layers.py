"""Norm and patches of the fast form, and enlarging in steps and folded."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.models.video_vae.context import Part, SliceContext
from engine.models.wan.vae.blocks import WanRmsNorm as PlainNorm
from engine.models.wan.vae.fast_layers import FastWanRmsNorm, PatchLayer, Pictures
from engine.models.wan.vae.fast_resample import SteppedEnlarger
from engine.models.wan.vae.plain import patches, pictures
from engine.ops.conv.causal_conv import Carry
from engine.ops.conv.frame_conv import ConvOptions, ConvShape, FrameConv
from engine.ops.conv.subpixel import NearestFold
from engine.ops.conv.workspace import Workspace
from engine.settings.optimisations import VaeSwitches
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan_config


def context_of(frames: Tensor, *, last: bool = True, fused: bool = True) -> SliceContext:
    place = Workspace(frames.device, frames.dtype, planned=True, channels_last=last)
    switches = VaeSwitches(fused_norm=fused, channels_last=last)
    return SliceContext(carry=Carry(), workspace=place, switches=switches, stream=frames)


def through(part: Part[SliceContext], frames: Tensor, *, last: bool) -> Tensor:
    context = context_of(frames, last=last)
    part.run(context)
    return context.take()


def as_clip(frames: Tensor) -> Tensor:
    return frames.movedim(0, 1).unsqueeze(0)


@pytest.mark.parametrize("last", [True, False])
def test_patches_are_those_of_the_plain_form(last: bool) -> None:
    frames = random_frames(2, 3, 6, 4)
    folded = through(PatchLayer(), frames, last=last)
    assert torch.equal(as_clip(folded), patches(as_clip(frames), 2))
    assert torch.equal(through(Pictures(columns_first=True), folded, last=last), frames)


@pytest.mark.parametrize("last", [True, False])
def test_pictures_of_twice_the_size_are_those_of_the_plain_form(last: bool) -> None:
    head = random_frames(2, 12, 3, 4)
    found = through(Pictures(columns_first=False), head, last=last)
    assert torch.equal(as_clip(found), pictures(as_clip(head), tiny_wan_config("2x")))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-6, 1e-13, 0.0])
def test_a_norm_of_any_length_is_that_of_the_plain_form(size: float, fused: bool) -> None:
    frames = size * random_frames(2, 6, 3, 4)
    plain = PlainNorm(6).double().requires_grad_(False)
    plain.gamma.copy_(random_frames(6, 1, 1, 1, seed=1))
    norm = FastWanRmsNorm(plain.gamma.flatten())
    found = torch.empty_like(frames)
    norm.write(frames, found, context_of(frames, fused=fused), silu=False)
    torch.testing.assert_close(as_clip(found), plain(as_clip(frames)), rtol=1e-12, atol=0)
    norm.write(frames, found, context_of(frames, fused=fused))
    wanted = torch.nn.functional.silu(plain(as_clip(frames)))
    torch.testing.assert_close(as_clip(found), wanted, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("fused", [True, False])
def test_a_black_position_of_half_precision_stays_black(fused: bool) -> None:
    frames = torch.zeros(1, 8, 2, 2, dtype=torch.float16)
    found = torch.ones_like(frames)
    FastWanRmsNorm(torch.ones(8)).write(frames, found, context_of(frames, fused=fused))
    assert (found == 0).all()


@pytest.mark.parametrize("chunked", [True, False])
def test_enlarging_in_steps_is_the_folded_way(chunked: bool) -> None:
    weight, bias = random_frames(5, 4, 3, 3), random_frames(5, seed=2)
    options = ConvOptions(dtype=torch.float64, form="2d")
    steps = SteppedEnlarger(FrameConv(weight.unsqueeze(2), bias, ConvShape(), options), 5)
    frames = random_frames(3, 4, 2, 3).contiguous(memory_format=torch.channels_last)
    found = []
    for enlarger in (steps, NearestFold(weight, bias, torch.float64)):
        out = torch.full((6, 5, 4, 6), torch.nan, dtype=torch.float64)
        enlarger.write(frames, out[1::2], chunked=chunked)
        assert out[::2].isnan().all()
        found.append(out[1::2])
    torch.testing.assert_close(*found, rtol=0, atol=1e-12)
