"""The plain variant can be trained: gradients reach everything and are those of its values."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.models.wan.vae.config import Stage
from engine.models.wan.vae.plain import (
    AveragedShortcut,
    Head,
    RepeatedShortcut,
    WanAttention,
    WanDownsampler,
    WanResidualBlock,
    WanUpsampler,
    WanVae,
)
from engine.ops.conv.causal_conv import Carry
from tests.helpers.seedvr2 import random_frames, randomise
from tests.helpers.wan import tiny_wan, tiny_wan_config


def loss_of(vae: WanVae, clip: Tensor, wanted: Tensor) -> Tensor:
    """Of a fine-tuning: a sample of the latent, its picture, and a small weight on its spread."""
    posterior = vae.posterior(clip)
    mean, logvar = posterior.chunk(2, dim=1)
    noise = torch.randn(mean.shape, generator=torch.Generator().manual_seed(1), dtype=mean.dtype)
    pictures = vae.decode(mean + (0.5 * logvar).exp() * noise)
    return F.mse_loss(pictures, wanted) + 1e-6 * (mean.square() + logvar.exp() - logvar).sum()


def gradients(vae: WanVae, clip: Tensor) -> dict[str, Tensor]:
    vae.requires_grad_(True).zero_grad()
    scale = vae.config.upscale
    wanted = F.interpolate(clip[0].movedim(0, 1), scale_factor=scale).movedim(0, 1)[None]
    loss_of(vae, clip, wanted).backward()
    return {name: value.grad for name, value in vae.named_parameters()}


@pytest.mark.parametrize("layout", ["2.1", "2.2", "2x"])
def test_gradients_reach_every_parameter(layout: str) -> None:
    vae = tiny_wan(tiny_wan_config(layout))
    side = vae.config.spatial_factor
    clip = random_frames(1, 3, 9, 2 * side, side)
    at_once = gradients(vae, clip)
    for name, gradient in at_once.items():
        assert gradient is not None, name
        assert gradient.isfinite().all(), name
        assert gradient.abs().max() > 0, name
    vae.enable_slicing(4)
    for name, gradient in gradients(vae, clip).items():
        torch.testing.assert_close(gradient, at_once[name], rtol=1e-8, atol=1e-12)


PIECES: dict[str, tuple[nn.Module, int]] = {
    "residual block": (WanResidualBlock(2, 3), 2),
    "attention": (WanAttention(2), 2),
    "head": (Head(2, 1), 2),
    "down": (WanDownsampler(Stage(inner=2, outer=2, blocks=0, result=2, space=True, time=True)), 2),
    "up": (WanUpsampler(Stage(inner=2, outer=2, blocks=0, result=1, space=True, time=True)), 2),
    "averaged": (
        AveragedShortcut(Stage(inner=2, outer=4, blocks=0, result=4, space=True, time=True)), 2),
    "repeated": (
        RepeatedShortcut(Stage(inner=2, outer=2, blocks=0, result=2, space=True, time=True)), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", PIECES)
def test_the_gradient_of_a_piece_is_that_of_its_values(name: str) -> None:
    piece, channels = PIECES[name]
    randomise(piece, 3)
    piece = piece.double()
    frames = random_frames(1, channels, 3, 2, 2).requires_grad_()
    parameters = {key: value.detach() for key, value in piece.named_parameters()}

    def run(frames: Tensor, *values: Tensor) -> Tensor:
        given = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(piece, given, (frames, Carry()))

    values = [value.requires_grad_() for value in parameters.values()]
    assert torch.autograd.gradcheck(run, (frames, *values))
