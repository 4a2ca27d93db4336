"""How far back the VAEs look: that far is enough, and one latent less is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from engine.models.wan.vae.config import WAN2X, WAN21, WAN22
from engine.models.wan.vae.receptive_field import (
    decode_warm_up,
    decoder_reach,
    encode_warm_up,
    encoder_reach,
)
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan, tiny_wan_config

AFTER = 2  # latents of a shot after the last one that is looked at
EXACT = 1e-13


@pytest.mark.parametrize("layout", ["2.1", "2.2"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_the_vaes_look_back_so_far_and_no_less(layout: Any, blocks: int) -> None:
    vae = tiny_wan(tiny_wan_config(layout, residual_blocks=blocks))
    vae.enable_slicing(32)
    reach, side = encoder_reach(vae.config), vae.config.spatial_factor
    clip = random_frames(1, 3, 1 + 4 * (reach + 1 + AFTER), side, side)
    whole, late = vae.encode(clip), vae.encode(clip[:, :, 4:])
    assert float((late - whole[:, :, 1:])[:, :, reach:].abs().max()) <= EXACT
    clip[:, :, :4] = torch.nan  # all that the late one did not know
    assert seen_in(vae.encode(clip)) == list(range(reach + 1))
    reach = decoder_reach(vae.config)
    latents = random_frames(1, vae.config.latent_channels, reach + 1 + AFTER, 1, 1)
    whole, late = vae.decode(latents), vae.decode(latents[:, :, 1:])
    first = 4 * reach - 3  # frame of the latent that is so far after the late one's first
    assert float((late - whole[:, :, 4:])[:, :, first:].abs().max()) <= EXACT
    latents[:, :, :1] = torch.nan
    assert {-(-frame // 4) for frame in seen_in(vae.decode(latents))} == set(range(reach + 1))


def test_the_published_models() -> None:
    for config in (WAN21, WAN22, WAN2X):
        assert (encoder_reach(config), decoder_reach(config)) == (28, 38)
        assert encode_warm_up(config) == 5
        assert decode_warm_up(config) == (14 if config is WAN22 else 8)


def seen_in(clip: Tensor) -> list[int]:
    """Where in time something is that is no number."""
    return clip.isnan().any(1).flatten(2).any(2)[0].nonzero().flatten().tolist()
