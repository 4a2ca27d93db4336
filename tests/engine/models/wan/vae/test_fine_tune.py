"""Gradients of each piece of the plain variant are those of its values."""

from __future__ import annotations

import pytest
import torch
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
)
from engine.ops.conv.causal_conv import Carry
from tests.helpers.seedvr2 import random_frames, randomise

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
