"""The plain VAE: gradients and types; tests/golden compares it with published values."""

from __future__ import annotations

import pytest
import torch

from tests.helpers.seedvr2 import random_frames, tiny_vae


@pytest.mark.parametrize("path", ["encoder", "decoder"])
def test_gradients_equal_differences(path: str) -> None:
    vae = tiny_vae().requires_grad_(True)
    frames, latent = random_frames(1, 3, 9, 8, 8), random_frames(1, 4, 3, 1, 1)
    inputs, run = (frames, vae.posterior) if path == "encoder" else (latent, vae.decode)
    inputs.requires_grad_(True)
    vae.enable_slicing()  # gradients go through the carry too
    output = run(inputs)
    weights = random_frames(*output.shape, seed=11)
    (output * weights).sum().backward()
    parameters = [inputs, *getattr(vae, path).parameters()]
    directions = [
        random_frames(*value.shape, seed=20 + index) for index, value in enumerate(parameters)
    ]
    slope = sum(
        (value.grad * direction).sum().item()
        for value, direction in zip(parameters, directions, strict=True)
        if value.grad is not None
    )

    @torch.no_grad()
    def shifted(step: float) -> float:
        for value, direction in zip(parameters, directions, strict=True):
            value.add_(direction, alpha=step)
        total = (run(inputs) * weights).sum().item()
        for value, direction in zip(parameters, directions, strict=True):
            value.sub_(direction, alpha=step)
        return total

    step = 1e-6
    difference = (shifted(step) - shifted(-step)) / (2 * step)
    assert slope == pytest.approx(difference, rel=1e-6)
    assert all(value.grad is not None and value.grad.any() for value in parameters)


def test_other_types() -> None:
    frames, latent, exact = random_frames(1, 3, 5, 16, 8), random_frames(1, 4, 2, 2, 1), tiny_vae()
    for dtype, limit in ((torch.float32, 1e-5), (torch.float16, 0.01), (torch.bfloat16, 0.08)):
        vae = tiny_vae(dtype=dtype)
        for name, whole in (("posterior", frames), ("decode", latent)):
            wanted = getattr(exact, name)(whole)
            result = getattr(vae, name)(whole.to(dtype))
            assert result.dtype == dtype
            error = (result.double() - wanted).square().mean().sqrt() / wanted.std()
            assert error < limit, (name, dtype)


def test_a_frame_far_from_zero_is_normalised_exactly() -> None:
    vae32, vae64 = tiny_vae(dtype=torch.float32), tiny_vae()
    frames = 100 + random_frames(1, 8, 2, 16, 16).to(memory_format=torch.channels_last_3d)
    block32, block64 = (vae.encoder.down_blocks[0].resnets[0] for vae in (vae32, vae64))
    result, wanted = block32.norm1(frames.float()), block64.norm1(frames.float().double())
    torch.testing.assert_close(result.double(), wanted, rtol=0, atol=1e-4)
