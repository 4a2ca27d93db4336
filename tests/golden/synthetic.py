"""Folders laid out like golden ones, with other sizes and options, made by the plain variant."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from tests.reference.tiled_vae import tiled_decode, tiled_encode

CONSTRUCTOR: dict[str, Any] = {
    "in_channels": 3,
    "out_channels": 3,
    "latent_channels": 6,
    "block_out_channels": [4, 4, 8, 8],
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "temporal_scale_num": 2,
    "slicing_sample_min_size": 4,
    "use_quant_conv": False,
    "use_post_quant_conv": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSpec:
    """What a folder has; `options` change the constructor."""

    options: dict[str, Any] = field(default_factory=dict)
    frames: tuple[int, ...] = (1, 9)
    tile: tuple[tuple[int, int], tuple[int, int]] = ((24, 32), (9, 16))  # tile, overlap in px
    name: str = "vae_tiny"
    metadata_style: str = "nested"  # or "plain"
    weights_metadata: bool = True

    @property
    def constructor(self) -> dict[str, Any]:
        """Options as the files' metadata have them."""
        return CONSTRUCTOR | self.options

    @property
    def config(self) -> VaeConfig:
        """The same as the engine's configuration."""
        options = self.constructor
        steps = len(options["block_out_channels"]) - 1
        times = options["temporal_scale_num"]
        return VaeConfig(
            latent_channels=options["latent_channels"],
            block_out_channels=tuple(options["block_out_channels"]),
            layers_per_block=options["layers_per_block"],
            norm_groups=options["norm_num_groups"],
            encoder_time=tuple(level >= steps - times for level in range(steps)),
            decoder_time=tuple(level < times for level in range(steps)),
            quant_conv=options["use_quant_conv"],
            post_quant_conv=options["use_post_quant_conv"],
            slice_frames=options["slicing_sample_min_size"],
        )


@torch.inference_mode()
def write_folder(folder: Path, spec: FolderSpec) -> int:
    """Write weights and cases; how many outcomes the checker must give for them."""
    vae = random_vae(spec.config)
    config = {"constructor": spec.constructor, "n_params": 1}
    metadata = {
        "config": json.dumps(config if spec.metadata_style == "nested" else spec.constructor)
    }
    weights = {name: value.contiguous() for name, value in vae.state_dict().items()}
    files = {"weights": (weights, metadata if spec.weights_metadata else {})}
    files["encode"] = (_encode_cases(vae, spec), metadata)
    files["decode"] = (_decode_cases(vae, spec), metadata)
    tile, overlap = spec.tile
    cases = {"q": {"tile_size_px": list(tile), "tile_overlap_px": list(overlap)}}
    files["tiled"] = (_tiled_cases(vae, spec), metadata | {"cases": json.dumps(cases)})
    for part, (tensors, about) in files.items():
        copies = {name: value.clone() for name, value in tensors.items()}
        save_file(copies, folder / f"{spec.name}_{part}.safetensors", about)
    inputs = (".input", ".latent")
    made = [name for part, (names, _) in files.items() if part != "weights" for name in names]
    return 2 + 2 * sum(not name.endswith(inputs) for name in made)


def random_vae(config: VaeConfig) -> SeedVr2Vae:
    """A VAE whose norms and biases are random too; the same at each call."""
    generator = torch.Generator().manual_seed(7)
    vae = SeedVr2Vae(config).requires_grad_(False)
    for name, parameter in vae.named_parameters():
        if "norm" in name and name.endswith("weight"):
            parameter.uniform_(0.5, 1.5, generator=generator)
        elif name.endswith("bias"):
            parameter.normal_(0, 0.2, generator=generator)
        else:
            parameter.normal_(0, parameter[0].numel() ** -0.5, generator=generator)
    return vae


def _encode_cases(vae: SeedVr2Vae, spec: FolderSpec) -> dict[str, Tensor]:
    """Moments at once for one clip and in slices for the next: not every file has everything."""
    side = 2 * vae.config.spatial_factor
    result: dict[str, Tensor] = {}
    for number, frames in enumerate(spec.frames):
        tag = f"enc.f{frames}.odd"  # a tag with a full stop in it
        clip = torch.rand(1, 3, frames, side, side + vae.config.spatial_factor) * 2 - 1
        result[f"{tag}.input"] = clip
        if number % 2:
            result[f"{tag}.mean"] = vae.encode(clip)
        else:
            result[f"{tag}.moments_slicing_on"] = vae.posterior(clip)
            result[f"{tag}.logvar"] = vae.posterior(clip).chunk(2, dim=1)[1]
    return result


def _decode_cases(vae: SeedVr2Vae, spec: FolderSpec) -> dict[str, Tensor]:
    result: dict[str, Tensor] = {}
    for frames in spec.frames:
        steps = (frames - 1) // vae.config.temporal_factor + 1
        latent = torch.randn(1, vae.config.latent_channels, steps, 2, 3)
        sample = vae.decode(latent)
        result[f"dec.l{steps}.latent"] = latent
        result[f"dec.l{steps}.sample_slicing_off"] = sample.squeeze(2) if steps == 1 else sample
    return result


def _tiled_cases(vae: SeedVr2Vae, spec: FolderSpec) -> dict[str, Tensor]:
    """Two tiles and a bit each way, in slices."""
    frames, factor = max(spec.frames), vae.config.spatial_factor
    sides = [2 * side // factor * factor - factor for side in spec.tile[0]]
    clip = torch.rand(1, 3, frames, *sides) * 2 - 1
    steps = (frames - 1) // vae.config.temporal_factor + 1
    latent = torch.randn(1, vae.config.latent_channels, steps, *(side // factor for side in sides))
    return {
        "tile.q.input": clip,
        "tile.q.mean_tiled": tiled_encode(vae, clip, *spec.tile),
        "tile.q.mean_untiled": vae.encode(clip),
        "tile.q.latent": latent,
        "tile.q.sample_tiled": tiled_decode(vae, latent, *spec.tile),
    }
