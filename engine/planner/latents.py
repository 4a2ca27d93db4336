"""Jobs whose source holds latents: how they become pictures, before anything else is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engine.core.units import bytes_text, memory_text, rate_text
from engine.hardware.budget import Budget
from engine.models import registry
from engine.models.latents import Guess, LatentFormat, LatentHeader
from engine.protocol.media import MediaInfo, Reading, VideoInfo
from engine.protocol.plan import LatentPlan, Notice, Plan
from engine.settings.schema import JobSettings

_BYTES_PER_PIXEL = 6  # of 16 bits a colour
_WHERE_READ = {
    "raw": "as ComfyUI's own nodes save them",
    "normalised": "as WanVideoWrapper saves them",
}


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
    latents, header, guess = _examined(media)
    plan = latents.choose(header, settings, budget, device)
    return replace(plan, normalised=reading_of(settings, guess) == "normalised")


def reading_of(settings: JobSettings, guess: Guess) -> Reading:
    """What the user said, else the guess where it is sure, else raw, which is usual."""
    if settings.latents == "raw" or settings.latents == "normalised":
        return "normalised" if settings.latents == "normalised" else "raw"
    return guess.reading if guess.is_sure else "raw"


def _examined(media: MediaInfo) -> tuple[LatentFormat, LatentHeader, Guess]:
    latents = registry.latent_format(media.path)
    if latents is None:
        raise ValueError(f"{media.path} holds no latents")
    return latents, *latents.examined(media.path)


def film_bytes(video: VideoInfo) -> int:
    """Most that the decoded film takes on the disk: noise in the lowest bits stays as it is."""
    return video.size.pixels * video.frame_count * _BYTES_PER_PIXEL


def notices(
    plan: Plan, media: MediaInfo, settings: JobSettings, budget: Budget
) -> Iterator[Notice]:
    """What the user should know about a source of latents."""
    if plan.latent is None:
        return
    latents, header, guess = _examined(media)
    yield from _missing(plan.latent, header.title)
    yield from _card(plan.latent, latents.needs(plan.latent, plan.source_size).device, budget)
    yield from _disk(media, budget)
    yield from _reading(plan.latent, media, settings, guess)
    rate, title = rate_text(media.video.frame_rate), header.title
    if not settings.latent_rate and header.film.rate == header.rate and header.length > 1:
        yield Notice(
            code="latents-rate-assumed",
            severity="info",
            message=f"Latents do not say how fast they are shown: {rate} frames/s are assumed, "
            f"as {title} makes them.",
            hint="Set latent_rate where that is wrong.",
            params={"rate": rate, "model": title},
        )


def _disk(media: MediaInfo, budget: Budget) -> Iterator[Notice]:
    needed, free = film_bytes(media.video), budget.free_jobs_bytes
    if free < needed:
        yield Notice(
            code="disk-may-fill",
            severity="warning",
            message=f"The disk of the job folder has {bytes_text(free)} free; the decoded film "
            f"needs up to {bytes_text(needed)}.",
            hint="Free some space.",
            params={"free": str(free), "needed": str(needed), "disk": "job folder"},
        )


def _missing(plan: LatentPlan, title: str) -> Iterator[Notice]:
    if not plan.vae.is_here:
        name = plan.vae.path.name
        yield Notice(
            code="weights-missing",
            severity="refusal",
            message=f"The VAE of {title} is not on this machine yet: {name}.",
            hint=f"Get it with `models download {plan.vae.published}`, or in the list of models.",
            params={"files": plan.vae.published, "names": name},
        )


def _card(plan: LatentPlan, device: int, budget: Budget) -> Iterator[Notice]:
    if plan.device == "cuda" and device > budget.vram_bytes:
        yield Notice(
            code="plan-does-not-fit",
            severity="refusal",
            message=f"This needs {memory_text(device)} of the card's memory; "
            f"{memory_text(budget.vram_bytes)} may be used.",
            hint="Close other programs or choose the processor.",
            params={"needed": str(device), "allowed": str(budget.vram_bytes)},
        )


def _reading(
    plan: LatentPlan, media: MediaInfo, settings: JobSettings, guess: Guess
) -> Iterator[Notice]:
    reading: Reading = "normalised" if plan.normalised else "raw"
    other: Reading = "raw" if plan.normalised else "normalised"
    if guess.is_sure and guess.reading != reading:
        yield Notice(
            code="latents-look-other",
            severity="warning",
            message=f"The numbers of {media.path.name} look {other} and are taken as {reading}.",
            hint=f"If the picture is wrong, set latents={other}.",
            params={"reading": reading, "guess": other},
        )
    elif settings.latents == "auto":
        yield Notice(
            code="latents-guessed",
            severity="info" if guess.is_sure else "warning",
            message=f"The numbers of {media.path.name} are taken as {reading}, "
            f"{_WHERE_READ[reading]}.",
            hint=f"If the picture is wrong, set latents={other}.",
            params={"reading": reading, "guess": guess.reading},
        )
