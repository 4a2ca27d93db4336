"""Very small SeedVR2 models with random weights, in memory and as files."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import av
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.files.catalogue import ModelCatalogue
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B, DitConfig
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.ops.attention.rope import geometric_frequencies, linear_frequencies
from engine.settings.schema import SEEDVR2, JobSettings
from tests.helpers.servers import FaultyServer, published
from tests.helpers.tensors import unfilled


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
    vae = unfilled(partial(SeedVr2Vae, tiny_config() if config is None else config))
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
    """Values in [-1, 1]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.float64).mul_(2).sub_(1).to(dtype)


_SIZES: dict[str, Any] = {"dim": 32, "text_in_dim": 24, "heads": 2, "head_dim": 16}


def tiny_dit_config(kind: str = "3b", **changes: Any) -> DitConfig:
    """A configuration of the kind "3b" or "7b"; omitted sizes follow from the others."""
    sizes = {**_SIZES, "layers": 4 if kind == "3b" else 3, "mlp_hidden": 48, **changes}
    layers, head_dim = sizes["layers"], sizes["head_dim"]
    if kind == "3b":
        return replace(DIT_3B, **{"separate_layers": min(2, layers), "rope_dim": head_dim, **sizes})
    return replace(DIT_7B, **{"separate_layers": layers, "rope_dim": head_dim // 2, **sizes})


def random_dit(
    config: DitConfig | None = None, seed: int = 5, dtype: torch.dtype = torch.float64
) -> SeedVr2Dit:
    """A plain transformer; no weight is neutral, and results have a size of about 1."""
    dit = unfilled(partial(SeedVr2Dit, tiny_dit_config() if config is None else config))
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
    """Write such a transformer as it would be published; the model, rounded so, is returned.

    `frequencies` adds the buffers of the rotary embedding, as the published files have them.
    """
    dit = random_dit(config, seed)
    dit.load_state_dict({n: value.to(dtype).double() for n, value in dit.state_dict().items()})
    tensors = {n: value.to(dtype).contiguous() for n, value in dit.state_dict().items()}
    if frequencies:
        axis = geometric_frequencies if dit.config.rope == "mm" else linear_frequencies
        for layer in range(dit.config.layers):
            name = f"blocks.{layer}.attn.rope.rope.freqs"
            tensors[name] = axis(dit.config.rope_dim).to(dtype)
    metadata = {"norm_eps": dit.config.norm_eps, "window": list(dit.config.window)}
    save_file(tensors, path, {"config": json.dumps(metadata)})
    return dit


def _random(name: str, shape: torch.Size, generator: torch.Generator) -> Tensor:
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    if len(shape) > 1:
        return noise / shape[-1] ** 0.5
    if "norm" in name or name.endswith("scale"):
        return 1 + 0.3 * noise
    return 0.3 * noise


_LATENT_CHANNELS = 16  # what the transformer takes


@dataclass(frozen=True, slots=True)
class SeedVr2Files:
    """Where they are."""

    dit: Path
    vae: Path
    text: Path

    def options(self) -> list[str]:
        """For the command line."""
        files = {"--dit": self.dit, "--vae": self.vae, "--text-embedding": self.text}
        return [word for option, path in files.items() for word in (option, str(path))]

    def settings(self, **changes: object) -> JobSettings:
        """A job that takes them."""
        named = {"dit": str(self.dit), "vae": str(self.vae), "text_embedding": str(self.text)}
        return JobSettings(**{"model": "seedvr2-3b", **named, **changes})


def write_vae(path: Path, config: VaeConfig) -> None:
    """Write a plain VAE with random weights in float32."""
    vae = tiny_vae(config, dtype=torch.float32)
    metadata = {"config": json.dumps({"norm_num_groups": config.norm_groups})}
    save_file({name: v.contiguous() for name, v in vae.state_dict().items()}, path, metadata)


def write_seedvr2(folder: Path, kind: str = "3b") -> SeedVr2Files:
    """Write all three; the kind of transformer is "3b" or "7b"."""
    folder.mkdir(parents=True, exist_ok=True)
    files = SeedVr2Files(
        folder / f"tiny_{kind}.safetensors", folder / "tiny_vae.safetensors", folder / "tiny.pt"
    )
    config = tiny_dit_config(kind)
    write_dit(files.dit, config)
    write_vae(files.vae, tiny_config(latent_channels=_LATENT_CHANNELS))
    generator = torch.Generator().manual_seed(11)
    torch.save(torch.randn(5, config.text_in_dim, generator=generator).bfloat16(), files.text)
    return files


def make_three_shots(path: Path, frames: tuple[int, int, int], size: str) -> Path:
    """A lossless video of three scenes of n frames each, with hard cuts between them."""
    width, height = map(int, size.split("x"))
    with av.open(path, "w") as output:
        video = output.add_stream("ffv1", rate=25, width=width, height=height, pix_fmt="yuv420p")
        pts = itertools.count()
        for scene, count in zip(("testsrc2", "mandelbrot", "smptebars"), frames, strict=True):
            graph = av.filter.Graph()
            graph.link_nodes(
                graph.add(scene, f"size={size}:rate=25"),
                graph.add("format", "yuv420p"),
                graph.add("noise", "c0s=4:c0f=t"),  # else most frames of small films are equal
                graph.add("buffersink"),
            ).configure()
            for _ in range(count):
                frame = graph.pull()
                frame.pts = next(pts)
                output.mux(video.encode(frame))
        output.mux(video.encode())
    return path


def publish_seedvr2(server: FaultyServer, folder: Path) -> ModelCatalogue:
    """Put all three on a server; the catalogue of a program that knows them as the published ones.

    Their ids are "tiny-dit", "tiny-vae" and "tiny-text".
    """
    files = write_seedvr2(folder)
    entries = []
    for kind, path in (("dit", files.dit), ("vae", files.vae), ("text", files.text)):
        content = path.read_bytes()
        server.files[f"/some/body/main/{path.name}"] = content
        about = {"id": f"tiny-{kind}", "kind": kind, "models": SEEDVR2, "filename": path.name}
        entries.append(published(content, **about))
    hosts = {"loopback": server.url + "/{repository}/{revision}/{filename}"}
    return ModelCatalogue(hosts=hosts, files=tuple(entries))
