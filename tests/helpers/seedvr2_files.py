"""Files of a very small SeedVR2: transformer, VAE and text embedding with random numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

from engine.settings.schema import JobSettings
from tests.helpers.program import ffmpeg
from tests.helpers.tiny import tiny_config, tiny_vae
from tests.helpers.tiny_dit import tiny_dit_config, write_dit

_LATENT_CHANNELS = 16  # what the transformer takes


@dataclass(frozen=True, slots=True)
class SeedVr2Files:
    """Where they are."""

    dit: Path
    vae: Path
    text: Path

    def options(self) -> list[str]:
        """For the command line."""
        return [
            *("--dit", str(self.dit), "--vae", str(self.vae)),
            *("--text-embedding", str(self.text)),
        ]

    def settings(self, **changes: object) -> JobSettings:
        """A job that takes them."""
        named = {"dit": str(self.dit), "vae": str(self.vae), "text_embedding": str(self.text)}
        return JobSettings(**{"model": "seedvr2-3b", **named, **changes})


def write_seedvr2(folder: Path, kind: str = "3b") -> SeedVr2Files:
    """Write all three; the kind of transformer is "3b" or "7b"."""
    folder.mkdir(parents=True, exist_ok=True)
    files = SeedVr2Files(
        folder / f"tiny_{kind}.safetensors", folder / "tiny_vae.safetensors", folder / "tiny.pt"
    )
    config = tiny_dit_config(kind)
    write_dit(files.dit, config)
    vae = tiny_vae(tiny_config(latent_channels=_LATENT_CHANNELS), dtype=torch.float32)
    told = {"norm_num_groups": vae.config.norm_groups}
    tensors = {name: value.contiguous() for name, value in vae.state_dict().items()}
    save_file(tensors, files.vae, {"config": json.dumps(told)})
    generator = torch.Generator().manual_seed(11)
    torch.save(torch.randn(5, config.text_in_dim, generator=generator).bfloat16(), files.text)
    return files


def make_three_shots(path: Path, frames: tuple[int, int, int], size: str) -> Path:
    """A lossless film of three scenes of so many frames, hard cuts between them."""
    scenes = ("testsrc2", "mandelbrot", "smptebars")
    inputs = [
        word
        for scene, count in zip(scenes, frames, strict=True)
        for word in (
            *("-f", "lavfi", "-i"),
            f"{scene}=size={size}:rate=25,trim=end_frame={count},format=yuv420p",
        )
    ]
    ffmpeg(*inputs, "-filter_complex", "concat=n=3", "-c:v", "ffv1", path)
    return path
