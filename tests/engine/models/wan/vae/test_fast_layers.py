"""Norm and patches of the fast variant, and enlarging in steps and folded."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.models.video_vae.layers import PatchLayer, Pictures
from engine.models.video_vae.slice_context import NormInput, Part, SliceContext
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.fast_layers import FastWanRmsNorm
from engine.models.wan.vae.plain import WanRmsNorm as PlainNorm
from engine.models.wan.vae.plain import patches, pictures
from engine.ops.conv.causal_conv import Carry
from engine.ops.conv.workspace import Workspace
from engine.settings.optimisations import VaeSwitches
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan, tiny_wan_config


def context_of(frames: Tensor, *, last: bool = True, fused: bool = True) -> SliceContext:
    place = Workspace(frames.device, frames.dtype, planned=True, channels_last=last)
    switches = VaeSwitches(fused_norm=fused, channels_last=last)
    return SliceContext(carry=Carry(), workspace=place, switches=switches, stream=frames)


def through(part: Part, frames: Tensor, *, last: bool) -> Tensor:
    context = context_of(frames, last=last)
    part.run(context)
    return context.take()


def as_clip(frames: Tensor) -> Tensor:
    return frames.movedim(0, 1).unsqueeze(0)


def test_patches_and_pictures_are_those_of_the_plain_form() -> None:
    frames, head = random_frames(2, 3, 6, 4), random_frames(2, 12, 3, 4)
    for last in (True, False):
        folded = through(PatchLayer(columns_first=True), frames, last=last)
        assert torch.equal(as_clip(folded), patches(as_clip(frames), 2))
        assert torch.equal(through(Pictures(columns_first=True), folded, last=last), frames)
        found = through(Pictures(columns_first=False), head, last=last)
        assert torch.equal(as_clip(found), pictures(as_clip(head), tiny_wan_config("2x")))


@pytest.mark.parametrize("fused", [True, False])
def test_a_norm_of_any_length_is_that_of_the_plain_form(fused: bool) -> None:
    plain = PlainNorm(6).double().requires_grad_(False)
    plain.gamma.copy_(random_frames(6, 1, 1, 1, seed=1))
    norm = FastWanRmsNorm(plain.gamma.flatten())
    for size in (1.0, 1e-3, 1e-6, 1e-13, 0.0):
        frames = size * random_frames(2, 6, 3, 4)
        found, wanted = torch.empty_like(frames), plain(as_clip(frames))
        norm.write(NormInput(frames), found, context_of(frames, fused=fused), silu=False)
        torch.testing.assert_close(as_clip(found), wanted, rtol=1e-12, atol=0)
        norm.write(NormInput(frames), found, context_of(frames, fused=fused))
        active = torch.nn.functional.silu(wanted)
        torch.testing.assert_close(as_clip(found), active, rtol=1e-12, atol=1e-300)
    black = torch.zeros(1, 8, 2, 2, dtype=torch.float16)
    found = torch.ones_like(black)
    FastWanRmsNorm(torch.ones(8)).write(NormInput(black), found, context_of(black, fused=fused))
    assert (found == 0).all()


def test_black_latents_give_zeros_in_half_precision() -> None:
    weights = tiny_wan(dtype=torch.float16).state_dict()
    for name in weights:
        if name.endswith("bias"):
            weights[name].zero_()
    for switches in (VaeSwitches(), VaeSwitches.all_off()):
        fast = FastWanVae(tiny_wan_config(), weights, dtype=torch.float16, switches=switches)
        assert (fast.decode(torch.zeros(1, 16, 2, 2, 2)) == 0).all()
