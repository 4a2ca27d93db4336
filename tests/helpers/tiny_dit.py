"""Very small SeedVR2 transformers with random numbers, in memory and as files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B, DitConfig
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.ops.attention.rope import geometric_frequencies, linear_frequencies

_SIZES: dict[str, Any] = {"dim": 32, "text_in_dim": 24, "heads": 2, "head_dim": 16}


def tiny_dit_config(kind: str = "3b", **changes: Any) -> DitConfig:
    """A configuration of the kind "3b" or "7b"; what is not said follows from what is."""
    sizes = {**_SIZES, "layers": 4 if kind == "3b" else 3, "mlp_hidden": 48, **changes}
    layers, head_dim = sizes["layers"], sizes["head_dim"]
    if kind == "3b":
        return replace(DIT_3B, **{"separate_layers": min(2, layers), "rope_dim": head_dim, **sizes})
    return replace(DIT_7B, **{"separate_layers": layers, "rope_dim": head_dim // 2, **sizes})


def random_dit(
    config: DitConfig | None = None, seed: int = 5, dtype: torch.dtype = torch.float64
) -> SeedVr2Dit:
    """A plain transformer; no weight is neutral, and results have a size of about 1."""
    dit = SeedVr2Dit(tiny_dit_config() if config is None else config)
    generator = torch.Generator().manual_seed(seed)
    for name, value in dit.named_parameters():
        value.data.copy_(_random(name, value.shape, generator))
    return dit.to(dtype).requires_grad_(False).eval()


def random_inputs(
    config: DitConfig,
    shape: tuple[int, int, int] = (2, 6, 8),
    *,
    text: int = 5,
    seed: int = 7,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    """A latent [T, H, W, in_channels] and a text [L, text_in_dim]."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((*shape, config.in_channels), (text, config.text_in_dim))
    latent, words = (torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)
    return latent.to(dtype), words.to(dtype)


def write_dit(
    path: Path,
    config: DitConfig | None = None,
    *,
    seed: int = 5,
    dtype: torch.dtype = torch.float32,
    frequencies: bool = True,
) -> SeedVr2Dit:
    """Write such a transformer as it would be published; the model in float64 is returned.

    Args:
        path: Of the safetensors file.
        config: None: a tiny 3B.
        seed: Of its numbers.
        dtype: Of the tensors in the file; the model has them as they are there.
        frequencies: Add the buffers of the rotary embedding, as the published files do.
    """
    dit = random_dit(config, seed)
    dit.load_state_dict({n: value.to(dtype).double() for n, value in dit.state_dict().items()})
    tensors = {n: value.to(dtype).contiguous() for n, value in dit.state_dict().items()}
    if frequencies:
        axis = geometric_frequencies if dit.config.rope == "mm" else linear_frequencies
        for layer in range(dit.config.layers):
            name = f"blocks.{layer}.attn.rope.rope.freqs"
            tensors[name] = axis(dit.config.rope_dim).to(dtype)
    told = {"norm_eps": dit.config.norm_eps, "window": list(dit.config.window)}
    save_file(tensors, path, {"config": json.dumps(told)})
    return dit


def _random(name: str, shape: torch.Size, generator: torch.Generator) -> Tensor:
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    if len(shape) > 1:
        return noise / shape[-1] ** 0.5
    if "norm" in name or name.endswith("scale"):
        return 1 + 0.3 * noise
    return 0.3 * noise
