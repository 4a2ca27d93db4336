"""Jobs whose source holds latents: they become a video before anything else is done.

That is a pass of a family like the others of a plan, which keeps only what may differ of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.models import registry
from engine.models.latents import Guess, LatentFormat, LatentHeader
from engine.protocol.media import MediaInfo, Reading, VideoInfo
from engine.protocol.plan import LatentPlan, PassName, Plan, WorkPlan
from engine.settings.schema import JobSettings

_BYTES_PER_PIXEL = 6  # of 16 bits a colour


def choose(media: MediaInfo, settings: JobSettings, device: str) -> LatentPlan:
    """The largest way to decode a source of latents on the device of the job.

    Raises:
        InputError: The latents cannot be used.
        WeightsError: The user's VAE is missing, or is another one.
    """
    latents, header, guess = examined(media)
    plan = latents.choose(header, settings, device)
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
    """Most that the decoded video takes on the disk: noise in the lowest bits stays as it is."""
    return video.size.pixels * video.frame_count * _BYTES_PER_PIXEL


def decoding(plan: Plan) -> WorkPlan | None:
    """The pass that decodes the source; None where it holds no latents."""
    latent = plan.latent
    if latent is None:
        return None
    return registry.latent_format_of(latent.model).decoding(latent, plan.source_size, plan.work)


def pass_of(plan: Plan, name: PassName) -> WorkPlan:
    """A pass of a plan that has it."""
    found: WorkPlan | None = decoding(plan) if name == "latent" else getattr(plan, name)
    assert found is not None
    return found


def with_pass(plan: Plan, name: PassName, work: WorkPlan) -> Plan:
    """The plan with another plan of one of its passes."""
    changed: dict[str, Any] = {name: work}
    if name == "latent":
        assert plan.latent is not None
        formats = registry.latent_format_of(plan.latent.model)
        changed = {name: formats.planned(plan.latent, work)}
    return replace(plan, **changed)
