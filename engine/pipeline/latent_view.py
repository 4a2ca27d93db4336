"""The first picture of a file of latents, in both readings, for the user to choose one."""

from __future__ import annotations

from pathlib import Path

from engine.models.latents import LatentFormat
from engine.pipeline.display import picture_of
from engine.protocol.events import Picture
from engine.protocol.plan import WeightsPlan

_MOST_PIXELS = 150_000  # decoded: some seconds of a processor for each reading


def first_picture(
    latents: LatentFormat, path: Path, vae: WeightsPlan, longest_side: int
) -> tuple[Picture, Picture, bool]:
    """The first latent decoded on the processor, or its middle where that would take long.

    Args:
        latents: Format of the file.
        path: Of the file.
        vae: That belongs to it.
        longest_side: Most pixels on the longer side.

    Returns:
        Its values taken as raw, and as normalised; whether the picture is whole.

    Raises:
        InputError, WeightsError: One of the files cannot be used.

    Memory: the VAE, and what it needs for two small pictures.
    """
    raw, normalised, is_whole = latents.first_frames(path, vae, _MOST_PIXELS)
    return picture_of(raw, longest_side), picture_of(normalised, longest_side), is_whole
