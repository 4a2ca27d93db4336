"""In half precision the fast form is as near to the truth as the plain one, on any kind of clip."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.plain import WanVae
from engine.settings.optimisations import Convolution, VaeSwitches
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan, tiny_wan_config

FORMS: tuple[Convolution, ...] = ("2d", "3d")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("frames", [1, 5])
@pytest.mark.parametrize("layout", ["2.1", "2.2"])
def test_half_precision_is_as_near_to_the_truth_as_the_plain_form(
    layout: Any, dtype: torch.dtype, frames: int
) -> None:
    """Root mean squares over models of several seeds: one alone is off by a third by chance."""
    found: dict[str, list[Tensor]] = defaultdict(list)
    for seed in range(3):
        plain, clip, latent = half_case(layout, dtype, frames, seed)
        truth = tiny_wan(plain.config)
        truth.load_state_dict({name: value.double() for name, value in plain.state_dict().items()})
        exact = truth.encode(clip.double()), truth.decode(latent.double())
        for form in ("plain", *FORMS):
            vae = plain if form == "plain" else fast_twin(plain, dtype, form)
            found[f"{form} encode"].append(vae.encode(clip) - exact[0])
            found[f"{form} decode"].append(vae.decode(latent) - exact[1])
    errors = {name: rms(parts) for name, parts in found.items()}
    for form in FORMS:
        for way in ("encode", "decode"):
            assert errors[f"{form} {way}"] <= 1.2 * errors[f"plain {way}"], errors


def half_case(
    layout: Any, dtype: torch.dtype, frames: int, seed: int
) -> tuple[WanVae, Tensor, Tensor]:
    """A plain VAE, a clip and a latent."""
    config = tiny_wan_config(layout, dim=8, dec_dim=16, residual_blocks=1)
    side = 3 * config.spatial_factor
    clip = random_frames(1, 3, frames, side, side, dtype=dtype, seed=seed)
    steps = 1 + frames // 4
    latent = random_frames(1, config.latent_channels, steps, 3, 3, dtype=dtype, seed=seed)
    return tiny_wan(config, dtype=dtype, seed=seed), clip, latent


def fast_twin(plain: WanVae, dtype: torch.dtype, form: Convolution) -> FastWanVae:
    switches = VaeSwitches(convolution=form)
    return FastWanVae(plain.config, plain.state_dict(), dtype=dtype, switches=switches)


def rms(errors: list[Tensor]) -> float:
    return torch.stack(errors).double().square().mean().sqrt().item()


@pytest.mark.parametrize("switches", [VaeSwitches(), VaeSwitches.all_off()], ids=["on", "off"])
def test_black_latents_give_numbers_in_half_precision(switches: VaeSwitches) -> None:
    weights = tiny_wan(dtype=torch.float16).state_dict()
    for name in weights:
        if name.endswith("bias"):
            weights[name].zero_()
    fast = FastWanVae(tiny_wan_config(), weights, dtype=torch.float16, switches=switches)
    assert (fast.decode(torch.zeros(1, 16, 2, 2, 2)) == 0).all()
