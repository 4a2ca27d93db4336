"""Very small models with random numbers, for tests of what does not depend on their size."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.plain import SeedVr2Vae


def tiny_config(encoder_time: tuple[bool, ...] = (False, True, True), **changes: Any) -> VaeConfig:
    """A configuration whose norms have several channels in a group."""
    widths = (8, 8, 12, 16)[: len(encoder_time) + 1]
    sizes: dict[str, Any] = {
        "block_out_channels": widths,
        "layers_per_block": 1,
        "latent_channels": 4,
        "norm_groups": 4,
        "encoder_time": encoder_time,
        "decoder_time": encoder_time[::-1],
    }
    return VaeConfig(**{**sizes, **changes})


def tiny_vae(
    config: VaeConfig | None = None, *, dtype: torch.dtype = torch.float64, seed: int = 5
) -> SeedVr2Vae:
    """A plain VAE with random weights, norms and biases included."""
    vae = SeedVr2Vae(tiny_config() if config is None else config)
    randomise(vae, seed)
    return vae.to(dtype).requires_grad_(False)


def randomise(module: nn.Module, seed: int) -> None:
    """Random numbers everywhere; matrices keep the size of what goes through."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in module.named_parameters():
        noise = torch.randn(value.shape, generator=generator)
        if value.ndim > 1:
            noise = noise / value[0].numel() ** 0.5
        elif "norm" in name and name.endswith("weight"):
            noise = 1 + 0.3 * noise
        else:
            noise = 0.3 * noise
        value.data.copy_(noise)


def random_frames(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 7) -> Tensor:
    """Numbers in [-1, 1]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.float64).mul_(2).sub_(1).to(dtype)
