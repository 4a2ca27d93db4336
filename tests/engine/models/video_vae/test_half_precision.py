"""In half precision the fast variants are as near to the truth as the plain ones."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.wan.vae.fast import FastWanVae
from engine.settings.optimisations import VaeSwitches
from tests.helpers.extended import extended
from tests.helpers.seedvr2 import random_frames, tiny_vae
from tests.helpers.wan import tiny_wan, tiny_wan_config

WIDTHS = {"block_out_channels": (16, 16, 32, 32), "norm_groups": 4, "latent_channels": 4}
CONFIGS: dict[str, Any] = {
    "seedvr2": VaeConfig(**WIDTHS, layers_per_block=1),
    "wan 2.1": tiny_wan_config("2.1", dim=8, dec_dim=16, residual_blocks=1),
    "wan 2.2": tiny_wan_config("2.2", dim=8, dec_dim=16, residual_blocks=1),
}


BF16, FP16 = torch.bfloat16, torch.float16
CASES = [("seedvr2", 5, BF16), ("seedvr2", 1, FP16), ("wan 2.1", 5, BF16), ("wan 2.2", 1, FP16)]
MORE = [case for case in product(CONFIGS, (1, 5), (BF16, FP16)) if case not in CASES]


@pytest.mark.parametrize(("name", "frames", "dtype"), [*CASES, *extended(*MORE)], ids=str)
def test_half_precision_is_as_near_to_the_truth_as_the_plain_form(
    name: str, frames: int, dtype: torch.dtype
) -> None:
    """Root mean squares over models of several seeds: one alone is off by a third by chance."""
    config, side = CONFIGS[name], 3 * CONFIGS[name].spatial_factor
    plain_of, fast_of = (tiny_vae, FastVae) if name == "seedvr2" else (tiny_wan, FastWanVae)
    errors: dict[str, list[Tensor]] = defaultdict(list)
    for seed in range(3):
        clip = random_frames(1, 3, frames, side, side, dtype=dtype, seed=seed)
        shape = (1, config.latent_channels, 1 + frames // 4, 3, 3)
        latent = random_frames(*shape, dtype=dtype, seed=seed)
        plain, truth = plain_of(config, dtype=dtype, seed=seed), plain_of(config)
        weights = plain.state_dict()
        truth.load_state_dict({key: value.double() for key, value in weights.items()})
        exact = truth.encode(clip.double()), truth.decode(latent.double())
        for form in ("plain", "2d", "3d"):
            vae = plain
            if form != "plain":
                switches = VaeSwitches(convolution=form)
                vae = fast_of(config, weights, dtype=dtype, switches=switches)
            errors[f"{form} encode"].append(vae.encode(clip) - exact[0])
            errors[f"{form} decode"].append(vae.decode(latent) - exact[1])
    found = {
        key: torch.stack(parts).double().square().mean().sqrt().item()
        for key, parts in errors.items()
    }
    for form in ("2d", "3d"):
        for way in ("encode", "decode"):
            assert found[f"{form} {way}"] <= 1.2 * found[f"plain {way}"], found


def test_black_latents_give_zeros_in_half_precision() -> None:
    weights = tiny_wan(dtype=torch.float16).state_dict()
    for name in weights:
        if name.endswith("bias"):
            weights[name].zero_()
    for switches in (VaeSwitches(), VaeSwitches.all_off()):
        fast = FastWanVae(tiny_wan_config(), weights, dtype=torch.float16, switches=switches)
        assert (fast.decode(torch.zeros(1, 16, 2, 2, 2)) == 0).all()
