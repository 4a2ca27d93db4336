"""The fast Wan VAEs on a card: exactness, half precision, memory, recordings, halves.

Runs without av and Qt, on random weights.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from engine.models.wan.vae.config import WanConfig
from engine.models.wan.vae.fast import FastWanVae
from engine.ops.conv.causal_conv import Carry
from engine.settings.optimisations import Convolution, VaeSwitches
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan, tiny_wan_config

pytestmark = pytest.mark.gpu

FORMS: tuple[Convolution, ...] = ("auto", "2d", "3d")
WIDE = {"dim": 16, "dec_dim": 16, "residual_blocks": 1}  # the kernels take multiples of 8


def rms(error: Tensor) -> float:
    return error.double().square().mean().sqrt().item()


def given(config: WanConfig, frames: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A clip and a latent."""
    side = config.spatial_factor
    clip = random_frames(1, 3, frames, 4 * side, 3 * side, dtype=dtype)
    steps = 1 + frames // 4
    return clip, random_frames(1, config.latent_channels, steps, 3, 4, dtype=dtype)


@pytest.mark.parametrize("layout", ["2.1", "2.2", "2x"])
@pytest.mark.parametrize("form", FORMS)
def test_single_precision_is_the_truth_but_for_rounding(layout: Any, form: Convolution) -> None:
    config = tiny_wan_config(layout, **WIDE)
    truth = tiny_wan(config)
    clip, latent = given(config, 9, torch.float32)
    exact = truth.posterior(clip.double()), truth.decode(latent.double())
    switches = VaeSwitches(convolution=form)
    vae = FastWanVae(config, truth.state_dict(), device="cuda", switches=switches)
    for size in (None, 4):
        if size is not None:
            vae.enable_slicing(size)
        assert (vae.posterior(clip).cpu() - exact[0]).abs().max() < 1e-4
        assert (vae.decode(latent).cpu() - exact[1]).abs().max() < 1e-4


@pytest.mark.parametrize("layout", ["2.1", "2.2"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
@pytest.mark.parametrize("frames", [1, 9])
def test_half_precision(layout: Any, form: Convolution, dtype: torch.dtype, frames: int) -> None:
    config = tiny_wan_config(layout, **WIDE)
    half = tiny_wan(config, dtype=dtype).cuda()
    truth = tiny_wan(config)
    truth.load_state_dict({name: value.double() for name, value in half.state_dict().items()})
    switches = VaeSwitches(convolution=form)
    fast = FastWanVae(config, half.state_dict(), device="cuda", dtype=dtype, switches=switches)
    clip, latent = given(config, frames, dtype)
    exact = truth.encode(clip.double()), truth.decode(latent.double())
    plain = half.encode(clip.cuda()).cpu(), half.decode(latent.cuda()).cpu()
    found = fast.encode(clip).cpu(), fast.decode(latent).cpu()
    for index in range(2):
        assert rms(found[index] - exact[index]) <= 1.2 * rms(plain[index] - exact[index])


def test_a_recording_gives_the_same() -> None:
    config = tiny_wan_config(**WIDE)
    weights = tiny_wan(config, dtype=torch.float32).state_dict()
    usual = FastWanVae(config, weights, device="cuda")
    graphed = FastWanVae(config, weights, device="cuda", switches=VaeSwitches(cuda_graph=True))
    for seed in range(3):
        latent = random_frames(1, 16, 1, 8, 6, dtype=torch.float32, seed=seed)
        expected, _ = usual.decode_slice(latent, Carry(last=True))
        found, _ = graphed.decode_slice(latent, Carry(last=True))
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)


def test_halves_make_the_whole() -> None:
    config = tiny_wan_config(**WIDE)
    vae = FastWanVae(config, tiny_wan(config).state_dict(), device="cuda", dtype=torch.float16)
    _, latent = given(config, 9, torch.float16)
    features, _ = vae.decode_low(latent, Carry(last=True))
    pictures, _ = vae.decode_high(features.cpu(), Carry(last=True))
    whole = vae.decode(latent)[0].movedim(1, 0)
    assert rms(pictures - whole) < 1e-3 * rms(whole)


def test_steady_slices_ask_for_no_more_memory() -> None:
    config = tiny_wan_config(**WIDE)
    vae = FastWanVae(config, tiny_wan(config).state_dict(), device="cuda", dtype=torch.float16)
    carry = Carry()
    latents = random_frames(1, 16, 12, 16, 16, dtype=torch.float16).cuda()
    reserved = []
    for start in range(12):
        frames, carry = vae.decode_slice(latents[:, :, start : start + 1], carry.handed_over())
        del frames
        torch.cuda.synchronize()
        reserved.append(torch.cuda.memory_reserved())
    assert len(set(reserved[3:])) == 1
