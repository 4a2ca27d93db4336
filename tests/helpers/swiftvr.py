"""Very small models of SwiftVR with random weights, in memory and as files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.models.swiftvr.dit.config import SwiftDitConfig
from engine.models.swiftvr.dit.plain import SwiftDit
from engine.models.swiftvr.files import CONFIG
from engine.models.swiftvr.vae.config import ReaeConfig
from engine.models.swiftvr.vae.plain import Reae
from engine.settings.schema import JobSettings
from tests.helpers.tensors import unfilled

M = TypeVar("M", bound=nn.Module)

TINY_DIT = SwiftDitConfig(
    channels=5,
    heads=2,
    head_dim=16,
    layers=3,
    hidden=48,
    text_dim=10,
    time_features=8,
    window=(2, 3),
)
PROMPT = "prompt.safetensors"
TINY_REAE = ReaeConfig(encoder_width=6, decoder_widths=(10, 8, 6, 4), latent_channels=5)


def tiny_reae(
    config: ReaeConfig = TINY_REAE, *, dtype: torch.dtype = torch.float64, seed: int = 5
) -> Reae:
    """A plain autoencoder with random weights; results have a size of about 0.3."""
    return filled(unfilled(partial(Reae, config)), seed).to(dtype)


def write_reae(path: Path) -> Reae:
    """Write such an autoencoder as it would be published; the one that is written is returned."""
    return written(path, tiny_reae())


def prompt_of(config: SwiftDitConfig, rows: int = 4, zeros: int = 5) -> Tensor:
    """A prompt [rows + zeros, text_dim] in float64."""
    generator = torch.Generator().manual_seed(7)
    words = torch.randn(rows, config.text_dim, generator=generator).double()
    return torch.cat([words, torch.zeros(zeros, config.text_dim, dtype=torch.float64)])


def tiny_dit(config: SwiftDitConfig = TINY_DIT, *, rows: int = 4, seed: int = 6) -> SwiftDit:
    """A plain transformer with random weights and a prompt, in float64."""
    dit = filled(unfilled(partial(SwiftDit, config)), seed)
    dit.prompt = prompt_of(config, rows)
    return dit


def write_dit(path: Path, config: SwiftDitConfig = TINY_DIT, *, rows: int = 4) -> SwiftDit:
    """Write such a transformer as it would be published, with prompt and configuration next to it.

    The one that is written is returned.
    """
    dit = tiny_dit(config, rows=rows)
    prompt = dit.prompt.half()
    dit.prompt = prompt.double()
    mask = torch.ones(1, len(prompt), dtype=torch.int64)
    tensors = {"prompt_emb": prompt[None], "attention_mask": mask, "input_ids": mask.clone()}
    save_file(tensors, path.parent / PROMPT)
    stated = {
        "attention_head_dim": config.head_dim,
        "self_attn_window_hw": list(config.window),
    }
    (path.parent / CONFIG).write_text(json.dumps(stated))
    return written(path, dit)


@dataclass(frozen=True, slots=True)
class SwiftVrFiles:
    """Files of a very small SwiftVR."""

    dit: Path
    vae: Path
    text: Path

    def settings(self, **changes: object) -> JobSettings:
        """A job that takes them."""
        named = {"dit": str(self.dit), "vae": str(self.vae), "text_embedding": str(self.text)}
        return JobSettings(**{"model": "swiftvr", **named, **changes})


def write_swiftvr(folder: Path) -> SwiftVrFiles:
    """Write all three as they would be published."""
    folder.mkdir(parents=True, exist_ok=True)
    dit, vae = folder / "tiny_dit.safetensors", folder / "tiny_reae.safetensors"
    write_reae(vae)
    write_dit(dit)
    return SwiftVrFiles(dit, vae, folder / PROMPT)


def filled(model: M, seed: int) -> M:
    """A model with random weights, none of them neutral."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.named_parameters():
        value.data.copy_(_random(name, value.shape, generator))
    return model.double().requires_grad_(False).eval()


def written(path: Path, model: M) -> M:
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
