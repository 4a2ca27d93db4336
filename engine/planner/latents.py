"""Jobs whose source holds latents: they become a video before anything else is done."""

from __future__ import annotations

from dataclasses import replace

from engine.hardware.budget import Budget
from engine.models import registry
from engine.models.latents import Guess, LatentFormat, LatentHeader
from engine.protocol.media import MediaInfo, Reading, VideoInfo
from engine.protocol.plan import LatentPlan
from engine.settings.schema import JobSettings

_BYTES_PER_PIXEL = 6  # of 16 bits a colour


def choose(media: MediaInfo, settings: JobSettings, device: str, budget: Budget) -> LatentPlan:
    """The largest way to decode a source of latents on the device of the job.

    Raises:
        InputError: The latents cannot be used.
        WeightsError: The user's VAE is missing, or is another one.
    """
    latents, header, guess = examined(media)
    plan = latents.choose(header, settings, device, budget)
    return replace(plan, normalised=reading_of(settings, guess) == "normalised")


def reading_of(settings: JobSettings, guess: Guess) -> Reading:
    """The reading that the user chose, else a sure guess, else raw, which is usual."""
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
    """Most that the decoded video takes on the disk: noise in the lowest bits stays as it is."""
    return video.size.pixels * video.frame_count * _BYTES_PER_PIXEL
