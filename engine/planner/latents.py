"""Jobs whose source holds latents: how they become pictures, before anything else is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engine.core.geometry import Size
from engine.core.units import bytes_text, memory_text, rate_text
from engine.hardware.budget import Budget
from engine.models.planning.tile_sizes import next_tile, tile_of
from engine.models.wan import files
from engine.models.wan.latents.file import examined
from engine.models.wan.latents.spaces import MODELS, Guess
from engine.models.wan.planning import choose as wan
from engine.models.wan.planning.requirements import latent_needs
from engine.protocol.media import MediaInfo, Reading, VideoInfo
from engine.protocol.plan import LatentPlan, Notice, Plan
from engine.settings.schema import JobSettings

_BYTES_PER_PIXEL = 6  # of 16 bits a colour
_WHERE_READ = {
    "raw": "as ComfyUI's own nodes save them",
    "normalised": "as WanVideoWrapper saves them",
}


def choose(
    media: MediaInfo, settings: JobSettings, budget: Budget, device: str
) -> LatentPlan | None:
    """How a source of latents is decoded; None for every other source.

    Args:
        media: The source.
        settings: What the user wants.
        budget: What the machine has.
        device: That the job runs on.

    Raises:
        InputError: The latents cannot be used.
        WeightsError: The user's VAE is not there, or is another one.
    """
    if not media.holds_latents:
        return None
    head, guess = examined(media.path)
    found = files.files_of_wan(head.space.model, settings.latent_vae)
    dtype, tile = wan.fitted_decode(found.config, head.padded, device, budget)
    edge = max(settings.decode_tile, wan.least_edge(found.config)) if settings.decode_tile else 0
    return LatentPlan(
        vae=found.vae,
        model=head.space.model,
        normalised=reading_of(settings, guess) == "normalised",
        device=device,
        dtype=dtype if settings.vae_precision == "auto" else settings.vae_precision,
        decode_tile=tile_of(edge, head.padded) or tile,
    )


def reading_of(settings: JobSettings, guess: Guess) -> Reading:
    """What the user said, else the guess where it is sure, else raw, which is usual."""
    if settings.latents == "raw" or settings.latents == "normalised":
        return "normalised" if settings.latents == "normalised" else "raw"
    return guess.reading if guess.is_sure else "raw"


def smaller(plan: LatentPlan, padded: Size) -> LatentPlan | None:
    """The same in smaller tiles; None at the floor.

    Args:
        plan: That needs too much.
        padded: Size of the pictures that the VAE makes, px.
    """
    least = wan.least_edge(files.wan_config(plan.vae, plan.model))
    tile = next_tile(plan.decode_tile, padded, least)
    return None if tile is None else replace(plan, decode_tile=tile)


def wider(plan: LatentPlan) -> LatentPlan | None:
    """The same in a number format that does not overflow; None where there is none."""
    return None if plan.dtype == "float32" else replace(plan, dtype="float32")


def film_bytes(video: VideoInfo) -> int:
    """Most that the decoded film takes on the disk: noise in the lowest bits stays as it is."""
    return video.size.pixels * video.frame_count * _BYTES_PER_PIXEL


def notices(
    plan: Plan, media: MediaInfo, settings: JobSettings, budget: Budget
) -> Iterator[Notice]:
    """What the user should know about a source of latents."""
    if plan.latent is None:
        return
    yield from _missing(plan.latent)
    yield from _card(plan.latent, plan.source_size, budget)
    yield from _disk(media, budget)
    yield from _reading(plan.latent, media, settings)
    head, _ = examined(media.path)
    rate, title = rate_text(media.video.frame_rate), head.space.title
    if not settings.latent_rate and head.film.rate == head.space.rate and head.length > 1:
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


def _missing(plan: LatentPlan) -> Iterator[Notice]:
    if not plan.vae.is_here:
        title, name = MODELS[plan.model].title, plan.vae.path.name
        yield Notice(
            code="weights-missing",
            severity="refusal",
            message=f"The VAE of {title} is not on this machine yet: {name}.",
            hint=f"Get it with `models download {plan.vae.published}`, or in the list of models.",
            params={"files": plan.vae.published, "names": name},
        )


def _card(plan: LatentPlan, size: Size, budget: Budget) -> Iterator[Notice]:
    device = latent_needs(plan, size).device
    if plan.device == "cuda" and device > budget.vram_bytes:
        yield Notice(
            code="plan-does-not-fit",
            severity="refusal",
            message=f"This needs {memory_text(device)} of the card's memory; "
            f"{memory_text(budget.vram_bytes)} may be used.",
            hint="Close other programs or choose the processor.",
            params={"needed": str(device), "allowed": str(budget.vram_bytes)},
        )


def _reading(plan: LatentPlan, media: MediaInfo, settings: JobSettings) -> Iterator[Notice]:
    _, guess = examined(media.path)
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
