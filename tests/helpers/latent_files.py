"""Files of latents as ComfyUI saves them, with random numbers or with anything else."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

MARKER = {"latent_format_version_0": torch.empty(0)}


def a_latent(channels: int = 16, length: int = 3, height: int = 3, width: int = 5) -> Tensor:
    """[1, C, t, h, w] float32, always the same numbers."""
    generator = torch.Generator().manual_seed(channels)
    return torch.randn(1, channels, length, height, width, generator=generator)


def write_latent(path: Path, latent: Tensor | None = None, *, marked: bool = True) -> Tensor:
    """Write a file as the node Save Latent does, or as its oldest version did."""
    latent = a_latent() if latent is None else latent
    tensors = {"latent_tensor": latent.contiguous()}
    save_file({**tensors, **(MARKER if marked else {})}, path, {"prompt": "{}"})
    return latent
