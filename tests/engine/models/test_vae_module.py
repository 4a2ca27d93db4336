"""A VAE as a module of torch, on a GPU; `tests/engine/test_scripting.py` has all else."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.models.vae_module import load_vae
from tests.helpers.seedvr2 import random_frames

GOLDEN = Path(__file__).parents[2] / "golden" / "seedvr2"


@pytest.mark.gpu
def test_a_vae_computes_on_a_gpu() -> None:
    path = GOLDEN / "vae_tiny_weights.safetensors"
    on_cpu, vae = load_vae(path, device="cpu"), load_vae(path)
    clip = random_frames(1, 3, 5, 32, 24, dtype=torch.float32)
    expected = on_cpu.decode(on_cpu.encode(clip))
    found = vae.decode(vae.encode(clip))
    assert found.is_cuda
    assert found.dtype == torch.float16
    assert (found.cpu().float() - expected).square().mean().sqrt() < 0.02
    with torch.autocast("cuda", dtype=torch.bfloat16):
        half = vae.decode(vae.encode(clip))
    assert half.dtype == torch.bfloat16
    assert (half.cpu().float() - expected).square().mean().sqrt() < 0.1
    assert torch.allclose(vae.to("cpu").encode(clip), on_cpu.encode(clip), atol=1e-4)
