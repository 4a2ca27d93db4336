"""Files of models with random weights, so that jobs can be measured without published ones."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from engine.bench.cases.runs import random_weights, vae_run
from engine.bench.options import BenchOptions
from engine.models.seedvr2.dit.config import DIT_3B
from engine.models.seedvr2.dit.random_dit import MIDDLE, TEXT_LENGTH
from engine.models.seedvr2.dit.random_file import RandomFile
from engine.models.seedvr2.vae.config import VAE
from engine.settings.schema import JobSettings


def write_wan(folder: Path, *, codec: str) -> JobSettings:
    """Wan 2x in its published size; the settings of a job that takes it."""
    path = folder / "wan.safetensors"
    _write_vae(path, BenchOptions(model="wan-2x", device="cpu"), {})
    return JobSettings(model="wan-2x", vae=str(path), codec=codec)


def write_seedvr2(
    folder: Path, *, codec: str = "auto", device: str = "cpu", parts: int = 2
) -> JobSettings:
    """SeedVR2 3B and the settings of a job on a device that takes it.

    On a GPU it has its published size, the transformer in fp8: 4 GB; on a processor the transformer
    is small and the VAE has one part of its channels: 150 MB with half of them.

    Raises:
        OSError, SafetensorError: The folder cannot hold it.

    Memory: the transformer twice.
    """
    on_gpu = device == "cuda"
    config = VAE if on_gpu else VAE.narrower(parts)
    vae, dit, text = (folder / name for name in ("vae.safetensors", "dit.safetensors", "text.pt"))
    options = BenchOptions(model="seedvr2-vae", device="cpu", config=config)
    _write_vae(vae, options, {"config": json.dumps({"norm_num_groups": config.norm_groups})})
    sizes = DIT_3B if on_gpu else MIDDLE["3b"]
    file = RandomFile(sizes, "float16", "F8_E4M3" if on_gpu else "", device)
    save_file({name: file.tensor(name) for name in file.shapes}, dit, file.metadata)
    torch.save(torch.randn(TEXT_LENGTH, sizes.text_in_dim).bfloat16(), text)
    return JobSettings(
        model="seedvr2-3b",
        scale=2,
        codec=codec,
        device=device,
        vae=str(vae),
        dit=str(dit),
        text_embedding=str(text),
    )


def _write_vae(path: Path, options: BenchOptions, metadata: dict[str, str]) -> None:
    weights = random_weights(vae_run(options, "decode"))
    tensors = {name: value.to(torch.float16).contiguous() for name, value in weights.items()}
    save_file(tensors, path, {"format": "pt", **metadata})
