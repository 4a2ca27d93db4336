"""Jobs with Wan 2x, and latents of the Wan VAEs: the largest plan that fits, then smaller ones."""

from __future__ import annotations

from dataclasses import replace

from engine.geometry import Size
from engine.media import VideoInfo
from engine.memory import fitting
from engine.memory.budget import PROGRAM_BYTES, Budget
from engine.memory.edges import EDGES, next_tile, tile_of
from engine.memory.wan_needs import (
    STEP,
    Needs,
    Pass,
    decode_needs,
    encode_needs,
    needs,
    padded_size,
    stage_bytes,
    stage_work,
    tiles,
    work,
)
from engine.models.wan import files, split
from engine.models.wan.config import WanConfig
from engine.models.wan.reach import decode_warm_up, encode_warm_up
from engine.plan import ModelPlan, WanPlan
from engine.settings.schema import JobSettings

__all__ = [
    "choose",
    "fitted",
    "less_on_host",
    "needs",
    "smaller",
    "stage_bytes",
    "stage_work",
    "tiles",
    "wider",
    "work",
]


def choose(video: VideoInfo, settings: JobSettings, where: ModelPlan) -> ModelPlan:
    """A job with Wan 2x at its largest.

    Args:
        video: Of the source.
        settings: What the user wants.
        where: Model, device and threads.

    Raises:
        WeightsError: A file that the user named is not there, or is none of Wan 2x.
    """
    found = files.files_of_wan(where.model, settings.vae)
    config, size = found.config, video.size
    padded = padded_size(config, size)
    plan = WanPlan(
        vae=found.vae,
        size=size,
        padded=padded,
        factor=config.upscale,
        slice_frames=STEP,
        encode_tile=tile_of(settings.encode_tile, padded),
        decode_tile=_decode_tile(config, settings.decode_tile, padded),
        warm_up=0 if where.device == "cuda" else warm_up(config),  # there is one memory
        shot_sensitivity=settings.shot_sensitivity if settings.shots == "auto" else None,
    )
    return replace(
        where,
        scale=config.upscale,
        dtype=vae_dtype(settings.vae_precision, where.device),
        clip_frames=STEP,
        tile=size,
        wan=plan,
    )


def smaller(model: ModelPlan) -> ModelPlan | None:
    """The same with less on the device: smaller tiles where most is needed; None at the floor."""
    plan = model.wan
    if plan is None:
        return None
    now = needs(model)
    steps = [_smaller_decode, _smaller_encode]
    if now.encode.working > now.decode.working:
        steps.reverse()
    return steps[0](model, now) or steps[1](model, now) or _parked(model)


def less_on_host(model: ModelPlan) -> ModelPlan | None:
    """The same with less in main memory: tiles begin early instead of waiting with their carry."""
    plan = model.wan
    if plan is None or plan.warm_up or not (plan.encode_tile or plan.decode_tile):
        return None
    config = files.wan_config(plan.vae, model.model)
    return replace(model, wan=replace(plan, warm_up=warm_up(config)))


def wider(model: ModelPlan) -> ModelPlan | None:
    """The same in numbers that do not overflow; None where they are as wide as can be."""
    return None if model.dtype == "float32" else replace(model, dtype="float32")


def fitted(model: ModelPlan, budget: Budget, host_bytes: int) -> ModelPlan:
    """The largest plan within the budget; the smallest one where none is.

    Args:
        model: At its largest.
        budget: What the machine has.
        host_bytes: That the rest of the job takes of main memory.
    """
    steps = fitting.Steps(needs=needs, smaller=smaller, less_on_host=less_on_host)
    return fitting.fitted(model, steps, budget, host_bytes)


def fitted_encode(
    config: WanConfig, size: Size, device: str, budget: Budget
) -> tuple[str, Size | None]:
    """How a film is encoded to latents.

    Args:
        config: Of the VAE.
        size: Of the pictures.
        device: Where it works.
        budget: What the machine has.

    Returns:
        Number format, and the largest tile that fits: px of the pictures, None for whole ones.
    """
    asked = _pass(config, size, device)
    while not fitting.fits(encode_needs(asked), device, budget, PROGRAM_BYTES):
        tile = next_tile(asked.tile, asked.frame)
        if tile is None:
            break
        asked = replace(asked, tile=tile)
    return asked.dtype, asked.tile


def fitted_decode(
    config: WanConfig, size: Size, device: str, budget: Budget
) -> tuple[str, Size | None]:
    """How latents are decoded to pictures; as `fitted_encode`."""
    asked = _pass(config, size, device)
    while not fitting.fits(decode_needs(asked), device, budget, PROGRAM_BYTES):
        tile = next_tile(asked.tile, asked.frame.scaled(config.upscale), least_edge(config))
        if tile is None:
            break
        asked = replace(asked, tile=tile)
    return asked.dtype, asked.tile


def _pass(config: WanConfig, size: Size, device: str) -> Pass:
    """At its largest."""
    return Pass(
        config=config,
        frame=padded_size(config, size),
        device=device,
        dtype=vae_dtype("auto", device),
    )


def vae_dtype(precision: str, device: str) -> str:
    """Number format of a Wan VAE: as wanted, else the fast one of a card."""
    if precision != "auto":
        return precision
    return "float16" if device == "cuda" else "float32"


def warm_up(config: WanConfig) -> int:
    """Latents that tiles begin early without any change of their pictures."""
    return max(encode_warm_up(config), decode_warm_up(config))


def least_edge(config: WanConfig) -> int:
    """The smallest edge of a decoded tile, px of the result."""
    cut = split.decode_cut(config)
    return max(EDGES[-1], split.least_tile(cut) * cut.factor * config.upscale)


def _decode_tile(config: WanConfig, edge: int, padded: Size) -> Size | None:
    wanted = max(edge, least_edge(config)) if edge else 0
    return tile_of(wanted, padded.scaled(config.upscale))


def _parked(model: ModelPlan) -> ModelPlan | None:
    plan = model.wan
    if plan is None or plan.parks or model.device == "cpu":
        return None
    return replace(model, wan=replace(plan, parks=True))


def _smaller_decode(model: ModelPlan, now: Needs) -> ModelPlan | None:
    plan = model.wan
    if plan is None:
        return None
    config = files.wan_config(plan.vae, model.model)
    canvas, tile = plan.padded.scaled(plan.factor), plan.decode_tile
    while (tile := next_tile(tile, canvas, least_edge(config))) is not None:
        less = replace(model, wan=replace(plan, decode_tile=tile))
        if needs(less).device < now.device:
            return less
    return None


def _smaller_encode(model: ModelPlan, now: Needs) -> ModelPlan | None:
    plan = model.wan
    if plan is None:
        return None
    tile = plan.encode_tile
    while (tile := next_tile(tile, plan.padded)) is not None:
        less = replace(model, wan=replace(plan, encode_tile=tile))
        if needs(less).device < now.device:
            return less
    return None
