"""The plain variant of each VAE can be trained: gradients reach everything, through carries too."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.helpers.seedvr2 import random_frames
from tests.helpers.vaes import EACH_OF_ALL, SIDES, AnyVaeRow, clip_of, latent_of


def weighted(result: Tensor) -> Tensor:
    """A sum in which each value counts, differently."""
    return (result * random_frames(*result.shape, seed=11)).sum()


def gradients(vae: Any, inputs: list[Tensor]) -> dict[str, Tensor]:
    """Gradients of all parameters, a clip and a latent; RuntimeError where one has none."""
    values = {**dict(vae.named_parameters()), **dict(zip(SIDES, inputs, strict=True))}
    for value in values.values():
        value.requires_grad_(True)
    loss = weighted(vae.posterior(inputs[0])) + weighted(vae.decode(inputs[1]))
    return dict(zip(values, torch.autograd.grad(loss, [*values.values()]), strict=True))


@EACH_OF_ALL
def test_gradients_reach_every_parameter_and_are_those_of_slices(row: AnyVaeRow) -> None:
    vae, inputs = (
        row.plain(),
        [clip_of(row.config, row.frames(3), 2, 1), latent_of(row.config, 3, 1, 1)],
    )
    at_once = gradients(vae, inputs)
    for name, gradient in at_once.items():
        assert gradient is not None, name
        assert gradient.isfinite().all(), name
        assert gradient.abs().max() > 0, name
    vae.enable_slicing(4)
    for name, gradient in gradients(vae, inputs).items():
        torch.testing.assert_close(gradient, at_once[name], rtol=1e-8, atol=1e-11)


@EACH_OF_ALL
def test_gradients_equal_differences(row: AnyVaeRow) -> None:
    vae, inputs = (
        row.plain(),
        [clip_of(row.config, row.frames(3), 1, 1), latent_of(row.config, 3, 1, 1)],
    )
    vae.enable_slicing(4)
    found = gradients(vae, inputs)
    values = [*vae.parameters(), *inputs]
    directions = [random_frames(*value.shape, seed=20 + n) for n, value in enumerate(values)]
    slope = sum(
        float((gradient * direction).sum())
        for gradient, direction in zip(found.values(), directions, strict=True)
    )

    @torch.no_grad()
    def shifted(step: float) -> float:
        for value, direction in zip(values, directions, strict=True):
            value.add_(direction, alpha=step)
        total = float(weighted(vae.posterior(inputs[0])) + weighted(vae.decode(inputs[1])))
        for value, direction in zip(values, directions, strict=True):
            value.sub_(direction, alpha=step)
        return total

    step = 1e-6
    assert slope == pytest.approx((shifted(step) - shifted(-step)) / (2 * step), rel=1e-6)
