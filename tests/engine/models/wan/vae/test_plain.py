"""The plain variant by itself; tests/golden compares it with published values."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.models.wan.vae.plain import WanRmsNorm, WanVae, patches, pictures
from engine.ops.conv.causal_conv import Carry
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan, tiny_wan_config

LAYOUTS = ("2.1", "2.2", "2x")
EXACT = {"rtol": 0, "atol": 1e-12}


@pytest.fixture(scope="module", params=LAYOUTS)
def vae(request: pytest.FixtureRequest) -> WanVae:
    return tiny_wan(tiny_wan_config(request.param))


def frames_for(vae: WanVae, length: int) -> Tensor:
    side = vae.config.spatial_factor
    return random_frames(1, 3, length, side, 2 * side)


def latent_for(vae: WanVae, length: int) -> Tensor:
    return random_frames(1, vae.config.latent_channels, length, 2, 1)


def test_shapes(vae: WanVae) -> None:
    config, frames = vae.config, frames_for(vae, 9)
    latent = vae.encode(frames)
    assert latent.shape == (1, config.latent_channels, 3, 1, 2)
    height, width = (config.upscale * side for side in frames.shape[3:])
    assert vae.decode(latent).shape == (1, 3, 9, height, width)
    assert config.spatial_factor == (16 if config.layout == "2.2" else 8)
    assert vae.usual_slice_frames == config.temporal_factor == 4


def test_nothing_sees_the_future(vae: WanVae) -> None:
    frames, latent = frames_for(vae, 9), latent_for(vae, 3)
    torch.testing.assert_close(
        vae.posterior(frames[:, :, :5]), vae.posterior(frames)[:, :, :2], **EXACT
    )
    torch.testing.assert_close(vae.decode(latent[:, :, :2]), vae.decode(latent)[:, :, :5], **EXACT)


def test_what_does_not_fit_is_refused(vae: WanVae) -> None:
    with pytest.raises(ValueError, match="4 frames are no 1"):
        vae.posterior(frames_for(vae, 4))
    _, carry = vae.decode_slice(latent_for(vae, 1), Carry())
    with pytest.raises(ValueError, match="another clip"):
        vae.decode_slice(latent_for(vae, 1).expand(2, -1, -1, -1, -1), carry)


def test_half_precision(vae: WanVae) -> None:
    latent = latent_for(vae, 2)
    wanted = vae.decode(latent)
    for dtype, limit in ((torch.float16, 1e-3), (torch.bfloat16, 8e-3)):
        found = tiny_wan(vae.config, dtype=dtype).decode(latent.to(dtype))
        assert found.dtype == dtype
        rms = (found.double() - wanted).square().mean().sqrt() / (wanted.max() - wanted.min())
        assert rms < limit, dtype


def test_the_norm_leaves_zeros_zero_and_has_a_minimum() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        frames = torch.zeros(1, 4, 1, 2, 2, dtype=dtype)
        frames[..., 0, 0] = 3e-7  # its length is far above the minimum, its square below float16
        found = WanRmsNorm(4).to(dtype)(frames)
        assert found.dtype == dtype
        assert torch.equal(found[..., 1, :], torch.zeros(1, 4, 1, 2, dtype=dtype))
        torch.testing.assert_close(found[..., 0, 0], torch.ones(1, 4, 1, dtype=dtype))
    frames = torch.full((1, 4, 1, 1, 1), 5e-14, dtype=torch.float64)  # of length 1e-13
    found = WanRmsNorm(4).double()(frames)
    torch.testing.assert_close(found, torch.full_like(found, 0.1))


def test_patches_come_back_as_pictures() -> None:
    config = tiny_wan_config("2.2")
    frames = random_frames(2, 3, 3, 4, 6)
    folded = patches(frames, config.patch)
    assert folded.shape == (2, 12, 3, 2, 3)
    assert torch.equal(folded[:, 4 + 2 + 0], frames[:, 1, :, 0::2, 1::2])  # green, column 1, row 0
    assert torch.equal(pictures(folded, config), frames)


def test_enlarged_pictures_are_in_the_usual_order() -> None:
    twelve = random_frames(2, 12, 3, 2, 3)
    found = pictures(twelve, tiny_wan_config("2x"))
    assert torch.equal(found[:, 1, :, 0::2, 1::2], twelve[:, 4 + 0 + 1])  # green, row 0, column 1
