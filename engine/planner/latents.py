"""Jobs whose source holds latents: how they become pictures, before anything else is done."""

from __future__ import annotations

from dataclasses import replace

from engine.hardware.budget import Budget
from engine.models import registry
from engine.models.latents import Guess, LatentFormat, LatentHeader
from engine.protocol.media import MediaInfo, Reading, VideoInfo
from engine.protocol.plan import LatentPlan
from engine.settings.schema import JobSettings

_BYTES_PER_PIXEL = 6  # of 16 bits a colour


def choose(media: MediaInfo, settings: JobSettings, budget: Budget, device: str) -> LatentPlan:
    """How a source of latents is decoded.

    Args:
        media: The source, which holds latents.
        settings: What the user wants.
        budget: What the machine has.
        device: That the job runs on.

    Raises:
        InputError: The latents cannot be used.
        WeightsError: The user's VAE is not there, or is another one.
    """
    latents, header, guess = examined(media)
    plan = latents.choose(header, settings, budget, device)
    return replace(plan, normalised=reading_of(settings, guess) == "normalised")


def reading_of(settings: JobSettings, guess: Guess) -> Reading:
    """What the user chose, else the guess where it is sure, else raw, which is usual."""
    if settings.latents == "raw" or settings.latents == "normalised":
        return "normalised" if settings.latents == "normalised" else "raw"
    return guess.reading if guess.is_sure else "raw"


def examined(media: MediaInfo) -> tuple[LatentFormat, LatentHeader, Guess]:
    """Format, header and guessed reading of a source of latents."""
    latents = registry.latent_format(media.path)
    if latents is None:
        raise ValueError(f"{media.path} holds no latents")
    return latents, *latents.examined(media.path)


def film_bytes(video: VideoInfo) -> int:
    """Most that the decoded film takes on the disk: noise in the lowest bits stays as it is."""
    return video.size.pixels * video.frame_count * _BYTES_PER_PIXEL
