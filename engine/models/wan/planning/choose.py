"""Jobs with Wan 2x, and latents of the Wan VAEs: the largest plan that fits, then smaller ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engine.core.geometry import Size
from engine.hardware.budget import PROGRAM_BYTES, Budget
from engine.models.planning import search
from engine.models.planning.tile_sizes import EDGES, next_tile, tile_of
from engine.models.wan import files
from engine.models.wan.planning.requirements import (
    STEP,
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
from engine.models.wan.planning.search import fitted, least_edge, warm_up
from engine.models.wan.vae.config import WanConfig
from engine.protocol.media import VideoInfo
from engine.protocol.plan import ModelPlan, WanPlan
from engine.settings.schema import JobSettings

__all__ = [
    "choose",
    "fitted",
    "least_edge",
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


def smaller(model: ModelPlan, stage: str = "") -> ModelPlan | None:
    """The same with less on the device in the stage that ran out; None at the floor.

    Args:
        model: That needs too much.
        stage: That ran out of memory: "encode" or "decode"; "" for the one that needs most.
    """
    if model.wan is None:
        return None
    now = stage_bytes(model)
    short = stage if stage in now else max(now, key=lambda name: now[name])
    found = (less for less in _smaller(model, short) if stage_bytes(less)[short] < now[short])
    most = max(now.values())
    return next((less for less in found if stage or needs(less).device < most), None)


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
    while not search.fits(encode_needs(asked), device, budget, PROGRAM_BYTES):
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
    while not search.fits(decode_needs(asked), device, budget, PROGRAM_BYTES):
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


def _decode_tile(config: WanConfig, edge: int, padded: Size) -> Size | None:
    wanted = max(edge, least_edge(config)) if edge else 0
    return tile_of(wanted, padded.scaled(config.upscale))


def _smaller(model: ModelPlan, stage: str) -> Iterator[ModelPlan]:
    """Smaller tiles of a stage, then of the other, whose carry waits; last what can be parked."""
    plan = model.wan
    if plan is None:
        return
    canvas = plan.padded.scaled(plan.factor)
    least = least_edge(files.wan_config(plan.vae, model.model))
    plans = [
        [replace(plan, decode_tile=tile) for tile in _tiles(plan.decode_tile, canvas, least)],
        [replace(plan, encode_tile=tile) for tile in _tiles(plan.encode_tile, plan.padded)],
    ]
    if stage == "encode":
        plans.reverse()
    parked = [] if plan.parks or model.device == "cpu" else [replace(plan, parks=True)]
    yield from (replace(model, wan=less) for less in (*plans[0], *plans[1], *parked))


def _tiles(tile: Size | None, frame: Size, least: int = EDGES[-1]) -> Iterator[Size]:
    while (tile := next_tile(tile, frame, least)) is not None:
        yield tile
