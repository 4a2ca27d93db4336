"""Where the Wan VAEs are cut, and tiles of the local half."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.core.geometry import Size
from engine.models.wan.vae.config import WAN2X, WAN21, WAN22
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.split import (
    Cut,
    decode_cut,
    decode_tiles,
    encode_cut,
    encode_tiles,
    least_tile,
    tiles,
)
from engine.ops.conv.causal_conv import Carry
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan, tiny_wan_config

HD = Size(1920, 1088)
CUTS = st.builds(Cut, factor=st.just(4), halo=st.integers(0, 6), time=st.just(2))
SIDES = st.integers(1, 90)


@settings(max_examples=25, deadline=None)
@given(canvas=st.builds(Size, SIDES, SIDES), cut=CUTS, more=st.builds(Size, SIDES, SIDES))
def test_tiles_know_a_halo_more_than_they_show(canvas: Size, cut: Cut, more: Size) -> None:
    least = least_tile(cut)
    tile = Size(least + more.width, least + more.height)
    found = tiles(canvas, tile, cut)
    assert sum(one.inner.size.pixels for one in found) == canvas.pixels
    assert len({one.outer.size for one in found}) == 1
    for one in found:
        inner, outer = one.inner, one.outer
        assert outer.width <= tile.width
        assert outer.height <= tile.height
        assert outer.x <= max(0, inner.x - cut.halo)
        assert outer.y <= max(0, inner.y - cut.halo)
        assert outer.right >= min(canvas.width, inner.right + cut.halo)
        assert outer.bottom >= min(canvas.height, inner.bottom + cut.halo)


def test_cuts_of_the_published_models() -> None:
    assert decode_cut(WAN21) == decode_cut(WAN2X) == Cut(factor=4, halo=6, time=2)
    assert decode_cut(WAN22) == Cut(factor=8, halo=12, time=2)
    assert encode_cut(WAN21) == Cut(factor=4, halo=4, time=2)
    assert encode_cut(WAN22) == Cut(factor=8, halo=4, time=2)
    (whole,) = encode_tiles(WAN21, HD, None)
    assert whole.outer == whole.inner
    assert whole.inner.size == Size(480, 272)
    assert decode_tiles(WAN2X, HD, None) == [whole]


def test_a_tile_is_given_in_pixels_of_what_is_large() -> None:
    tile = Size(512, 512)
    encoded, decoded = encode_tiles(WAN2X, HD, tile), decode_tiles(WAN2X, HD, tile)
    assert max(one.outer.width for one in encoded) <= 128
    assert max(one.outer.width for one in decoded) <= 64
    assert len(decoded) > len(encoded)
    for config in (WAN21, WAN22):
        for pixels in (32, 64):
            with pytest.raises(ValueError, match="leaves nothing"):
                decode_tiles(config, HD, Size(pixels, pixels))


@pytest.mark.parametrize("layout", ["2.1", "2.2"])
def test_the_halo_is_what_a_tile_sees_and_no_wider(layout: Any) -> None:
    plain = tiny_wan(tiny_wan_config(layout, dim=4, dec_dim=4))
    vae = FastWanVae(plain.config, plain.state_dict(), dtype=torch.float64)
    cut = decode_cut(vae.config)
    width = 2 * cut.halo + 3
    latents = random_frames(1, vae.config.latent_channels, 1, 1, width // 2 + 1)
    features = vae.decode_low(latents, Carry())[0][..., :width].clone()
    features[..., cut.halo + 1] = torch.nan
    frames, _ = vae.decode_high(features, Carry())
    assert {column // cut.factor for column in spoiled(frames)} == set(range(1, width - 1))
    cut = encode_cut(vae.config)
    width = 2 * cut.halo + 3
    frames = random_frames(1, 3, cut.factor, width * cut.factor)
    frames[..., (cut.halo + 1) * cut.factor : (cut.halo + 2) * cut.factor] = torch.nan
    features, _ = vae.encode_high(frames, Carry())
    assert set(spoiled(features)) == set(range(1, width - 1))


def spoiled(frames: Tensor) -> list[int]:
    """Columns where something is no number."""
    return frames.isnan().flatten(0, 2).any(0).nonzero().flatten().tolist()
