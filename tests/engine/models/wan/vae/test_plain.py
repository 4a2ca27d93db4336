"""Norm and pictures of the plain variant; tests/golden compares all of it with published values."""

from __future__ import annotations

import torch

from engine.models.wan.vae.plain import WanRmsNorm, patches, pictures
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan_config


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
