"""The Wan VAEs at work on files of latents: a file to frames, frames to a file, a first look."""

from __future__ import annotations

import math
from collections.abc import Generator
from pathlib import Path

import torch
from torch import Tensor

from engine.core.geometry import Box, Size
from engine.models.latents import Check, LatentDecoder, LatentEncoder, LatentEncoding, LatentFilm
from engine.models.upscalers import Watch
from engine.models.wan.latents.file import LatentFile, metadata_of
from engine.models.wan.latents.spaces import MODELS, normalised, raw
from engine.models.wan.latents.writer import LatentWriter
from engine.models.wan.vae.interface import WanVaeVariant
from engine.models.wan.vae.load import load_wan
from engine.models.wan.vae.split import LATENTS_PER_VISIT
from engine.models.wan.vae.streams import Streaming, WanDecodeStream, WanEncodeStream
from engine.protocol.plan import LatentPlan, WeightsPlan
from engine.settings.optimisations import VaeSwitches


class WanLatentDecoder(LatentDecoder):
    """A VAE that decodes files of latents, some latents at a time."""

    def __init__(self, plan: LatentPlan, switches: VaeSwitches) -> None:
        self._plan = plan
        self._vae = _loaded(plan.vae, plan.device, plan.dtype, switches)

    def frames(self, path: Path, watch: Watch, check: Check) -> Generator[Tensor, None, None]:
        """Frames [n, 3, H, W] in [-1, 1] of all latents of a file."""
        plan, dtype = self._plan, getattr(torch, self._plan.dtype)
        with LatentFile(path) as file:
            length = file.header.length
            streaming = Streaming(tile=plan.decode_tile)
            stream = WanDecodeStream(self._vae, file.header.padded, streaming, watch)
            for start in range(0, length, LATENTS_PER_VISIT):
                check()
                stop = min(length, start + LATENTS_PER_VISIT)
                latents = file.latents(start, stop)
                latents = raw(latents) if plan.normalised else latents
                yield from stream.push(latents[None].to(plan.device, dtype), last=stop == length)

    def close(self) -> None:
        """Give back buffers."""
        self._vae.release()


class WanLatentEncoder(LatentEncoder):
    """A VAE that encodes one film into a file, slice by slice."""

    def __init__(self, plan: LatentEncoding, path: Path, check: Check) -> None:
        self._plan, self._dtype = plan, getattr(torch, plan.dtype)
        vae = _loaded(plan.vae, plan.device, plan.dtype, plan.switches)
        self._stream = WanEncodeStream(vae, plan.padded, Streaming(tile=plan.tile), check)
        space, size = MODELS[plan.model], plan.padded
        grid = Size(size.width // space.factor, size.height // space.factor)
        self._writer = LatentWriter(path, space.channels, grid)

    @property
    def length(self) -> int:
        """Latents so far."""
        return self._writer.length

    def push(self, frames: Tensor, *, last: bool) -> None:
        """Encode the next frames."""
        latents = self._stream.push(frames.to(self._dtype), last=last)[0].float()
        self._writer.add(normalised(latents) if self._plan.normalised else latents)

    def close(self, film: LatentFilm) -> int:
        """Complete the file."""
        return self._writer.close(metadata_of(film))

    def discard(self) -> None:
        """Give up what was not completed."""
        self._writer.discard()


def first_frames(
    file: LatentFile, vae: WeightsPlan, most_pixels: int
) -> tuple[Tensor, Tensor, bool]:
    """The first frame in both readings, see `LatentFormat.first_frames`."""
    header = file.header
    box = middle(header.grid, most_pixels // header.factor**2)
    latent = file.latents(0, 1)[:, :, box.y : box.bottom, box.x : box.right]
    readings = torch.stack([latent, raw(latent)])
    model = _loaded(vae, "cpu", "float32", VaeSwitches())
    with torch.inference_mode():
        frames = model.decode(readings)[:, :, 0].add(1).mul_(0.5).clamp_(0, 1)
    size = header.film.size  # without what was added on the right and below before encoding
    first, second = frames[..., : size.height, : size.width]
    return first, second, box.size == header.grid


def middle(grid: Size, most: int) -> Box:
    """The whole grid, or a box in its middle, of its shape, with at most about so many places."""
    share = min(1.0, math.sqrt(most / grid.pixels))
    width, height = (max(1, math.floor(side * share)) for side in (grid.width, grid.height))
    return Box((grid.width - width) // 2, (grid.height - height) // 2, width, height)


def _loaded(vae: WeightsPlan, device: str, dtype: str, switches: VaeSwitches) -> WanVaeVariant:
    return load_wan(
        vae.path, form="fast", device=device, dtype=getattr(torch, dtype), switches=switches
    )
