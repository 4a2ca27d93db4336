"""Very small Wan VAEs with random weights, in memory and as files; files of latents."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.models.wan.vae.config import WAN2X, WAN21, WAN22, WanConfig
from engine.models.wan.vae.plain import WanVae
from tests.helpers.tensors import unfilled

GOLDEN = Path(__file__).parents[1] / "golden" / "wan"

_SIZES: dict[str, tuple[WanConfig, dict[str, Any]]] = {
    "2.1": (WAN21, {"dim": 8, "dec_dim": 8}),
    "2.2": (WAN22, {"dim": 4, "dec_dim": 8}),
    "2x": (WAN2X, {"dim": 8, "dec_dim": 8}),
}
_GAINS = {"to_qkv": 1.6, "residual.6": 0.7, "head.2": 0.6}  # as the golden models have them


def tiny_wan_config(layout: Literal["2.1", "2.2", "2x"] = "2.1", **changes: Any) -> WanConfig:
    """A configuration whose file is recognised like that of the published model."""
    config, sizes = _SIZES[layout]
    return replace(config, **{**sizes, **changes})


def tiny_wan(
    config: WanConfig | None = None, *, dtype: torch.dtype = torch.float64, seed: int = 5
) -> WanVae:
    """A plain VAE with random weights, none of them neutral; results have a size of about 0.3."""
    config = tiny_wan_config() if config is None else config
    vae = unfilled(partial(WanVae, config)).to(dtype)
    vae.load_state_dict(_values(config, seed))
    return vae.requires_grad_(False).eval()


@lru_cache(maxsize=64)
def _values(config: WanConfig, seed: int) -> dict[str, Tensor]:
    with torch.device("meta"):
        shapes = {name: value.shape for name, value in WanVae(config).named_parameters()}
    generator = torch.Generator().manual_seed(seed)
    return {name: _random(name, shape, generator) for name, shape in shapes.items()}


def write_wan(
    path: Path,
    config: WanConfig | None = None,
    *,
    layout: Literal["wan", "diffusers"] = "wan",
    dtype: torch.dtype = torch.float16,
) -> WanVae:
    """Write such a VAE as it would be published; the model in float64, rounded so, is returned.

    A ".pth" is written as torch does it, others as safetensors; `layout` is whose names it has.
    """
    vae = tiny_wan(config)
    vae.load_state_dict({name: v.to(dtype).double() for name, v in vae.state_dict().items()})
    tensors = {name: value.to(dtype) for name, value in vae.state_dict().items()}
    if layout == "diffusers":
        tensors = _as_diffusers(tensors, vae.config)
    if path.suffix == ".pth":
        torch.save(tensors, path)
    else:
        save_file(tensors, path, {"format": "pt"})
    return vae


def _as_diffusers(tensors: dict[str, Tensor], config: WanConfig) -> dict[str, Tensor]:
    """Under the names of the published table."""
    path = GOLDEN / f"diffusers_keymap_wan{config.layout.replace('.', '')}.json"
    table = json.loads(path.read_text("utf-8"))["table"]
    return {theirs: tensors[ours] for theirs, ours in table.items()}


def _random(name: str, shape: torch.Size, generator: torch.Generator) -> Tensor:
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    if name.endswith("gamma"):
        return 1 + 0.3 * noise
    if name.endswith("bias"):
        return 0.1 * noise
    gain = next((gain for part, gain in _GAINS.items() if part in name), 1.0)
    return gain * noise / noise[0].numel() ** 0.5


MARKER = {"latent_format_version_0": torch.empty(0)}


def a_latent(channels: int = 16, length: int = 3, height: int = 3, width: int = 5) -> Tensor:
    """[1, C, t, h, w] float32, always the same values."""
    generator = torch.Generator().manual_seed(channels)
    return torch.randn(1, channels, length, height, width, generator=generator)


def write_latent(path: Path, latent: Tensor | None = None, *, marked: bool = True) -> Tensor:
    """Write a file as the node Save Latent does, or as its oldest version did."""
    latent = a_latent() if latent is None else latent
    tensors = {"latent_tensor": latent.contiguous()}
    save_file({**tensors, **(MARKER if marked else {})}, path, {"prompt": "{}"})
    return latent
