"""A VAE as a module of torch, on a GPU; `tests/engine/test_scripting.py` has all else."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.models.vae_module import load_vae
from tests.helpers.seedvr2 import random_frames

pytestmark = pytest.mark.gpu

VAE = Path(__file__).parents[2] / "golden" / "seedvr2" / "vae_tiny_weights.safetensors"


def test_a_vae_computes_on_a_gpu() -> None:
    on_cpu, vae = load_vae(VAE, device="cpu"), load_vae(VAE, dtype=torch.float32)
    clip = random_frames(1, 3, 5, 32, 24, dtype=torch.float32)
    latent = vae.encode(clip)
    assert latent.is_cuda
    assert torch.allclose(latent.cpu(), on_cpu.encode(clip), atol=1e-3)
    assert torch.allclose(vae.to("cpu").encode(clip), on_cpu.encode(clip), atol=1e-4)


@pytest.mark.real_gpu("frames of several tiles take minutes there")
def test_tiles_on_a_gpu_are_those_of_the_cpu() -> None:
    on_cpu, vae = load_vae(VAE, device="cpu"), load_vae(VAE, dtype=torch.float32)
    clip = random_frames(1, 3, 5, 16, 400, dtype=torch.float32)
    latent = vae.encode(clip, tile=176)
    assert latent.is_cuda
    assert torch.allclose(latent.cpu(), on_cpu.encode(clip, tile=176), atol=1e-3)
    found, expected = vae.decode(latent, tile=176), on_cpu.decode(latent.cpu(), tile=176)
    assert found.is_cuda
    assert torch.allclose(found.cpu(), expected, atol=1e-3)


@pytest.mark.real_gpu("trials of convolutions in half precision take minutes there")
def test_a_vae_is_trained_and_computes_in_half_precision_on_a_gpu() -> None:
    on_cpu, vae = load_vae(VAE, device="cpu"), load_vae(VAE)
    clip = random_frames(1, 3, 5, 64, 48, dtype=torch.float32)
    expected = on_cpu.decode(on_cpu.encode(clip))
    found = vae.decode(vae.encode(clip))
    assert found.dtype == torch.float16
    assert (found.cpu().float() - expected).square().mean().sqrt() < 0.02
    vae.float().requires_grad_()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        vae(clip, return_loss=True).backward()
    assert all(one.grad is not None for one in vae.parameters())
