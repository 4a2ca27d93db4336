"""The two halves of each way make the whole, and tiles of the local half are exact."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.core.geometry import Box, Size
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.plain import WanVae
from engine.models.wan.vae.split import (
    decode_cut,
    encode_cut,
    least_tile,
    tiles,
)
from engine.ops.conv.causal_conv import Carry
from engine.settings.optimisations import VaeSwitches
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan, tiny_wan_config

EXACT = 1e-10
SHORT = {"residual_blocks": 1}  # and so a short halo


@pytest.fixture(scope="module", params=["2.1", "2.2", "2x"])
def plain(request: pytest.FixtureRequest) -> WanVae:
    return tiny_wan(tiny_wan_config(request.param, **SHORT))


@pytest.fixture(scope="module")
def fast(plain: WanVae) -> FastWanVae:
    return FastWanVae(plain.config, plain.state_dict(), dtype=torch.float64)


def assert_equal(found: Tensor, wanted: Tensor) -> None:
    assert found.shape == wanted.shape
    assert (found - wanted).abs().max() <= EXACT * wanted.abs().max()


def latent_of(vae: FastWanVae, steps: int, height: int, width: int) -> Tensor:
    return random_frames(1, vae.config.latent_channels, steps, height, width)


def clip_of(vae: FastWanVae, frames: int, height: int, width: int) -> Tensor:
    side = vae.config.spatial_factor
    return random_frames(1, 3, frames, height * side, width * side)


def decoded(vae: FastWanVae, latent: Tensor, lengths: list[int]) -> Tensor:
    low, high, found = Carry(), Carry(), []
    for part in latent.split(lengths, dim=2):
        features, low = vae.decode_low(part, low)
        frames, high = vae.decode_high(features, high)
        found.append(frames)
    return torch.cat(found).movedim(0, 1).unsqueeze(0)


def encoded(vae: FastWanVae, clip: Tensor, lengths: list[int]) -> Tensor:
    low, high, found = Carry(), Carry(), []
    for part in clip.split(lengths, dim=2):
        features, high = vae.encode_high(part[0].movedim(1, 0), high)
        moments, low = vae.encode_low(features, low)
        found.append(moments)
    return torch.cat(found, dim=2)


@pytest.mark.parametrize("lengths", [[1], [3], [1, 1, 1], [2, 3]])
def test_halves_make_the_whole(plain: WanVae, fast: FastWanVae, lengths: list[int]) -> None:
    latent = latent_of(fast, sum(lengths), 2, 3)
    assert_equal(decoded(fast, latent, lengths), plain.decode(latent))
    frames = [4 * lengths[0] - 3] + [4 * count for count in lengths[1:]]
    clip = clip_of(fast, sum(frames), 3, 2)
    assert_equal(encoded(fast, clip, frames), plain.posterior(clip))


def test_features_are_as_large_as_the_cuts_say(fast: FastWanVae) -> None:
    config = fast.config
    features, _ = fast.decode_low(latent_of(fast, 3, 2, 3), Carry())
    cut = decode_cut(config)
    side = config.spatial_factor // cut.factor
    assert features.shape[0] == 1 + 8 // cut.time
    assert features.shape[2:] == (2 * side, 3 * side)
    features, _ = fast.encode_high(clip_of(fast, 9, 2, 3)[0].movedim(1, 0), Carry())
    cut = encode_cut(config)
    side = config.spatial_factor // cut.factor
    assert features.shape[0] == 1 + 8 // cut.time
    assert features.shape[2:] == (2 * side, 3 * side)


def test_what_is_given_to_a_half_stays_as_it_is(fast: FastWanVae) -> None:
    features, _ = fast.decode_low(latent_of(fast, 2, 2, 2), Carry())
    frames = clip_of(fast, 5, 1, 1)[0].movedim(1, 0)
    moments_of, _ = fast.encode_high(frames, Carry())
    before = features.clone(), moments_of.clone()
    fast.decode_high(features, Carry())
    fast.encode_low(moments_of, Carry())
    torch.testing.assert_close((features, moments_of), before, rtol=0, atol=0)


def cut_out(frames: Tensor, box: Box) -> Tensor:
    return frames[..., box.y : box.bottom, box.x : box.right]


@pytest.mark.parametrize("switches", [VaeSwitches(), VaeSwitches.all_off()], ids=["on", "off"])
def test_tiles_of_the_decoder_are_the_whole(plain: WanVae, switches: VaeSwitches) -> None:
    vae = FastWanVae(plain.config, plain.state_dict(), dtype=torch.float64, switches=switches)
    cut = decode_cut(vae.config)
    scale = cut.factor * vae.config.upscale
    side = -(-(least_tile(cut) + 3) // (vae.config.spatial_factor // cut.factor))
    latent = latent_of(vae, 2, side, 1)
    features, _ = vae.decode_low(latent, Carry())
    wanted = plain.decode(latent)[0].movedim(1, 0)
    canvas = Size(features.shape[-1], features.shape[-2])
    found = torch.full_like(wanted, torch.nan)
    boxes = tiles(canvas, Size(canvas.width, least_tile(cut)), cut)
    for box in boxes:
        carry, parts = Carry(), []
        for some in cut_out(features, box.outer).split([1, len(features) - 1]):
            frames, carry = vae.decode_high(some, carry)
            parts.append(frames)
        inner = cut_out(torch.cat(parts), box.inside.scaled(scale))
        cut_out(found, box.inner.scaled(scale)).copy_(inner)
    assert len(boxes) > 1
    assert_equal(found, wanted)


def test_tiles_of_the_encoder_are_the_whole(plain: WanVae, fast: FastWanVae) -> None:
    cut = encode_cut(fast.config)
    per_latent = fast.config.spatial_factor // cut.factor
    side = -(-(least_tile(cut) + 3) // per_latent)
    clip = clip_of(fast, 5, 1, side)
    frames = clip[0].movedim(1, 0)
    whole, _ = fast.encode_high(frames, Carry())
    found = torch.full_like(whole, torch.nan)
    canvas = Size(side * per_latent, per_latent)
    boxes = tiles(canvas, Size(least_tile(cut), canvas.height), cut)
    for box in boxes:
        carry, parts = Carry(), []
        for some in cut_out(frames, box.outer.scaled(cut.factor)).split([1, 4]):
            features, carry = fast.encode_high(some, carry)
            parts.append(features)
        inner = cut_out(torch.cat(parts), box.inside)
        cut_out(found, box.inner).copy_(inner)
    assert len(boxes) > 1
    assert_equal(found, whole)
    moments, _ = fast.encode_low(found, Carry())
    assert_equal(moments, plain.posterior(clip))


def test_several_clips_are_not_halved(fast: FastWanVae) -> None:
    with pytest.raises(ValueError, match="one clip"):
        fast.decode_low(latent_of(fast, 1, 1, 1).expand(2, -1, -1, -1, -1), Carry())
