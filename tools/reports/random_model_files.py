"""Files of models with random weights, so that jobs can be measured without published ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from engine.bench.cases.runs import dit_run, random_weights, vae_run
from engine.bench.options import BenchOptions
from engine.models.seedvr2.dit.random_dit import MIDDLE, TEXT_LENGTH, build
from engine.models.seedvr2.vae.config import VAE
from engine.settings.schema import JobSettings


def write_wan(folder: Path, *, codec: str) -> JobSettings:
    """Wan 2x in its published size; the settings of a job that takes it."""
    path = folder / "wan.safetensors"
    _write_vae(path, BenchOptions(model="wan-2x", device="cpu"), {})
    return JobSettings(model="wan-2x", vae=str(path), codec=codec)


def write_seedvr2(folder: Path, *, codec: str) -> JobSettings:
    """SeedVR2 with a VAE half as wide as published and a small transformer, and such a job."""
    config = replace(VAE, block_out_channels=(64, 128, 256, 256))
    vae, dit, text = (folder / name for name in ("vae.safetensors", "dit.safetensors", "text.pt"))
    options = BenchOptions(model="seedvr2-vae", device="cpu", config=config)
    _write_vae(vae, options, {"config": json.dumps({"norm_num_groups": config.norm_groups})})
    _write_dit(dit, text)
    return JobSettings(
        model="seedvr2-3b",
        scale=2,
        codec=codec,
        vae=str(vae),
        dit=str(dit),
        text_embedding=str(text),
    )


def _write_vae(path: Path, options: BenchOptions, metadata: dict[str, str]) -> None:
    weights = random_weights(vae_run(options, "decode"))
    tensors = {name: value.to(torch.float16).contiguous() for name, value in weights.items()}
    save_file(tensors, path, {"format": "pt", **metadata})


def _write_dit(path: Path, text: Path) -> None:
    config = MIDDLE["3b"]
    run = dit_run(BenchOptions(device="cpu", dit=config), "3b")
    tensors = {
        name: value.to(torch.float16).contiguous()
        for name, value in build(run).state_dict().items()
    }
    metadata = {"norm_eps": config.norm_eps, "window": list(config.window)}
    save_file(tensors, path, {"config": json.dumps(metadata)})
    torch.save(torch.randn(TEXT_LENGTH, config.text_in_dim).bfloat16(), text)
