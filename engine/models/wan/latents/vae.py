"""The Wan VAEs at work on files of latents: a file to frames, frames to a file, a first look."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable
from pathlib import Path

import torch
from torch import Tensor

from engine.core.geometry import Box, Size
from engine.models.latents import Check, LatentFilm
from engine.models.upscalers import Watch
from engine.models.wan.latents.file import LatentFile, LatentWriter, metadata_of
from engine.models.wan.latents.spaces import MODELS, TEMPORAL_FACTOR, normalised, raw
from engine.models.wan.plan import WanPlan
from engine.models.wan.upscaler import load_vae, streamings
from engine.models.wan.vae.load import Wan, load_wan
from engine.models.wan.vae.split import LATENTS_PER_VISIT
from engine.models.wan.vae.streams import WanDecodeStream, WanEncodeStream
from engine.ops.transfer.parking import Parking
from engine.protocol.plan import WeightsPlan


def decode(
    path: Path, plan: WanPlan, is_normalised: bool, watch: Watch, check: Check
) -> Generator[Tensor, None, None]:
    """Frames of a file, some latents at a time; see `LatentFormat.decode`."""
    return _frames(load_vae(plan), path, plan, is_normalised, watch, check)


def _frames(
    vae: Wan, path: Path, plan: WanPlan, is_normalised: bool, watch: Watch, check: Check
) -> Generator[Tensor, None, None]:
    dtype, parking = getattr(torch, plan.dtype), Parking(plan.park_pin_bytes)
    _, streaming = streamings(plan, TEMPORAL_FACTOR, parking)
    try:
        with LatentFile(path) as file:
            length = file.header.length
            stream = WanDecodeStream(vae, file.header.padded, streaming, watch)
            for start in range(0, length, LATENTS_PER_VISIT):
                check()
                stop = min(length, start + LATENTS_PER_VISIT)
                latents = file.latents(start, stop)
                latents = raw(latents) if is_normalised else latents
                yield from stream.push(latents[None].to(plan.device, dtype), last=stop == length)
    finally:
        vae.release()
        parking.release()


def encode(
    path: Path,
    plan: WanPlan,
    slices: Iterable[tuple[Tensor, bool]],
    film: Callable[[], LatentFilm],
    *,
    is_normalised: bool,
    check: Check,
) -> tuple[int, int]:
    """Frames to a file, slice by slice; see `LatentFormat.encode`."""
    vae, dtype, parking = load_vae(plan), getattr(torch, plan.dtype), Parking(plan.park_pin_bytes)
    streaming, _ = streamings(plan, TEMPORAL_FACTOR, parking)
    stream = WanEncodeStream(vae, plan.padded, streaming, check)
    space, padded = MODELS[plan.model], plan.padded
    grid = Size(padded.width // space.factor, padded.height // space.factor)
    writer = LatentWriter(path, space.channels, grid)
    try:
        with torch.inference_mode():
            for frames, last in slices:
                latents = stream.push(frames.to(dtype), last=last)[0].float()
                writer.add(normalised(latents) if is_normalised else latents)
        return writer.length, writer.close(metadata_of(film()))
    finally:
        writer.discard()
        parking.release()


def first_frames(
    file: LatentFile, vae: WeightsPlan, most_pixels: int
) -> tuple[Tensor, Tensor, bool]:
    """The first frame in both readings, see `LatentFormat.first_frames`."""
    header = file.header
    box = middle(header.grid, most_pixels // header.factor**2)
    latent = file.latents(0, 1)[:, :, box.y : box.bottom, box.x : box.right]
    readings = torch.stack([latent, raw(latent)])
    model = load_wan(vae.path, form="fast", device="cpu", dtype=torch.float32)
    with torch.inference_mode():
        frames = model.decode(readings)[:, :, 0].add(1).mul_(0.5).clamp_(0, 1)
    size = header.film.size  # without what was added on the right and below before encoding
    first, second = frames[..., : size.height, : size.width]
    return first, second, box.size == header.grid


def middle(grid: Size, most: int) -> Box:
    """The whole grid, or a box in its middle, of its shape, with at most about `most` places."""
    share = min(1.0, math.sqrt(most / grid.pixels))
    width, height = (max(1, math.floor(side * share)) for side in (grid.width, grid.height))
    return Box((grid.width - width) // 2, (grid.height - height) // 2, width, height)
