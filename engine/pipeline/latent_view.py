"""The first picture of a file of latents, in both readings: for people who are to choose."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from engine.core.geometry import Box, Size
from engine.models.wan.latents.file import LatentFile
from engine.models.wan.latents.spaces import raw
from engine.models.wan.vae.load import load_wan
from engine.pipeline.display import picture_of
from engine.protocol.events import Picture
from engine.protocol.plan import WeightsPlan

_MOST_PIXELS = 150_000  # decoded: some seconds of a processor for each reading


def first_picture(
    file: LatentFile, vae: WeightsPlan, longest_side: int
) -> tuple[Picture, Picture, bool]:
    """The first latent decoded on the processor, or its middle where that would take long.

    Args:
        file: Open.
        vae: That belongs to it.
        longest_side: Most pixels on the longer side.

    Returns:
        Its numbers taken as raw, and as normalised; whether the picture is whole.

    Raises:
        InputError, WeightsError: One of the files cannot be used.

    Memory: the VAE, and what it needs for two small pictures.
    """
    grid = file.head.grid
    box = middle(grid, _MOST_PIXELS // file.head.space.factor**2)
    latent = file.latents(0, 1)[:, :, box.y : box.bottom, box.x : box.right]
    readings = torch.stack([latent, raw(latent)])
    model = load_wan(vae.path, form="fast", device="cpu", dtype=torch.float32)
    with torch.inference_mode():
        frames = model.decode(readings)[:, :, 0].add(1).mul_(0.5).clamp_(0, 1)
    first, second = (picture_of(_shown(frame, file), longest_side) for frame in frames)
    return first, second, box.size == grid


def middle(grid: Size, most: int) -> Box:
    """The whole grid, or a box in its middle, of its shape, with at most about so many places."""
    share = min(1.0, math.sqrt(most / grid.pixels))
    width, height = (max(1, math.floor(side * share)) for side in (grid.width, grid.height))
    return Box((grid.width - width) // 2, (grid.height - height) // 2, width, height)


def _shown(frame: Tensor, file: LatentFile) -> Tensor:
    """A picture without what was added to its right and below before it was encoded."""
    size = file.head.film.size
    return frame[:, : size.height, : size.width]
