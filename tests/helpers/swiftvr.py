"""Very small models of SwiftVR with random weights, in memory and as files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.models.swiftvr.vae.config import ReaeConfig
from engine.models.swiftvr.vae.plain import Reae
from tests.helpers.tensors import unfilled

TINY_REAE = ReaeConfig(encoder_width=6, decoder_widths=(10, 8, 6, 4), latent_channels=5)


def tiny_reae(
    config: ReaeConfig = TINY_REAE, *, dtype: torch.dtype = torch.float64, seed: int = 5
) -> Reae:
    """A plain autoencoder with random weights; results have a size of about 0.3."""
    return filled(unfilled(partial(Reae, config)), seed).to(dtype)


def write_reae(path: Path) -> Reae:
    """Write such an autoencoder as it would be published; the one that is written is returned."""
    return written(path, tiny_reae())


def filled(model: nn.Module, seed: int) -> nn.Module:
    """A model with random weights, none of them neutral."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.named_parameters():
        value.data.copy_(_random(name, value.shape, generator))
    return model.double().requires_grad_(False).eval()


def written(path: Path, model: nn.Module) -> nn.Module:
    """A model in float64, rounded as it is written to a file."""
    tensors = {name: value.half() for name, value in model.state_dict().items()}
    save_file(tensors, path, {"format": "pt"})
    model.load_state_dict({name: value.double() for name, value in tensors.items()})
    return model


def _random(name: str, shape: torch.Size, generator: torch.Generator) -> Tensor:
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    if ".norm" in name and name.endswith("weight"):
        return 1 + 0.3 * noise
    if name.endswith(("bias", "table")):
        return 0.2 * noise
    return noise / max(1, noise[0].numel()) ** 0.5
