"""SeedVR2 jobs: files, sizes, clips and tiles at their largest, and one step smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import cast

from engine.models.planning.tile_sizes import next_tile, tile_of
from engine.models.seedvr2 import files
from engine.models.seedvr2.frame_layout import layout_of, reference_layout
from engine.models.seedvr2.planning.requirements import (
    STEP,
    latents_of,
    needs,
    stage_bytes,
    stage_work,
    tiles,
    work,
)
from engine.models.seedvr2.planning.search import (
    CLIPS,
    WARM_UP,
    fitted,
    shared_of,
    with_clip,
)
from engine.protocol.media import VideoInfo
from engine.protocol.plan import (
    DiffusionPlan,
    Join,
    ModelPlan,
    PicturePlan,
)
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


def choose(
    video: VideoInfo,
    picture: PicturePlan,
    settings: JobSettings,
    where: ModelPlan,
    *,
    card_bytes: int = 0,
) -> ModelPlan:
    """A SeedVR2 job at its largest.

    Args:
        video: Of the source.
        picture: Of the result.
        settings: What the user wants.
        where: Model, device, number format and threads.
        card_bytes: Size of the card's memory, for the file that suits it.

    Raises:
        WeightsError: A file is not there, or is none of SeedVR2's.
    """
    found = files.files_of(where.model, settings, card_bytes=card_bytes)
    turned = (video.rotation - picture.rotation) % 360 in (90, 270)
    size = picture.size.transposed() if turned else picture.size
    layout = reference_layout(size) if settings.padding == "black" else layout_of(size)
    clip = _clip_latents(settings, where.device)
    whole = _in_frames(clip, settings) if settings.join != "latents" else (clip, shared_of(clip))
    diffusion = DiffusionPlan(
        dit=found.dit,
        vae=found.vae,
        text=found.text,
        size=size,
        padded=layout.padded,
        reflected=layout.reflected,
        clip=whole[0],
        shared=whole[1],
        join=cast(Join, settings.join),  # one of the choices of that setting
        encode_tile=tile_of(settings.encode_tile, layout.padded),
        decode_tile=tile_of(settings.decode_tile, layout.padded),
        warm_up=0 if where.device == "cuda" else WARM_UP,  # there is one memory
        vae_dtype=_vae_dtype(settings, where.device),
        blocks_on_device=None if settings.blocks_on_device < 0 else settings.blocks_on_device,
        attention=settings.attention,
        products=settings.matmul,
        strength=settings.strength,
        seed=settings.seed,
        noise_order=settings.noise_order,
        input_noise=settings.input_noise,
        latent_noise=settings.latent_noise,
        colour=settings.colour,
        shot_sensitivity=settings.shot_sensitivity if settings.shots == "auto" else None,
    )
    return replace(where, clip_frames=STEP, tile=size, diffusion=diffusion)


def smaller(model: ModelPlan, stage: str = "") -> ModelPlan | None:
    """The same with less on the device; None at the floor.

    The stage that ran out, or else the one that needs most, takes less in the new plan; where
    nothing can be made smaller there, fewer weights stay, and last what any other stage takes.

    Args:
        model: That needs too much.
        stage: That ran out of memory: "encode", "transformer" or "decode"; "" where nobody knows.
    """
    plan = model.diffusion
    if plan is None:
        return None
    now = needs(model)
    first, *others = sorted(now.stages, key=lambda name: (name != stage, -now.stages[name]))
    order: list[Callable[[], DiffusionPlan | None]] = [
        partial(_smaller_stage, model, first),
        partial(_fewer_blocks, model),
        *(partial(_smaller_stage, model, name) for name in others),
    ]
    if now.weights > now.stages[first] - now.weights:
        order[:2] = reversed(order[:2])
    found = (step() for step in order)
    less = next((one for one in found if one is not None), None)
    return None if less is None else replace(model, diffusion=less)


def less_on_host(model: ModelPlan) -> ModelPlan | None:
    """The same with less in main memory; None at the floor."""
    plan = model.diffusion
    if plan is None:
        return None
    if (plan.decode_tile or plan.encode_tile) and not plan.warm_up:
        return replace(model, diffusion=replace(plan, warm_up=WARM_UP))
    shorter = next(_shorter(plan), None)
    return None if shorter is None else replace(model, diffusion=shorter)


def wider(model: ModelPlan) -> ModelPlan | None:
    """The same with a VAE whose numbers do not overflow; None where they are as wide as can be."""
    plan = model.diffusion
    if plan is None or plan.vae_dtype == "float32":
        return None
    return replace(model, diffusion=replace(plan, vae_dtype="float32"))


# --- choices


def _clip_latents(settings: JobSettings, device: str) -> int:
    if settings.clip_frames:
        return 1 + -(-(settings.clip_frames - 1) // STEP)
    return CLIPS["cuda" if device == "cuda" else "cpu"][0]


def _in_frames(clip: int, settings: JobSettings) -> tuple[int, int]:
    frames = 1 + (clip - 1) * STEP
    shared = settings.join_frames if settings.join == "frames" else 0
    return frames, min(shared, (frames - 1) // 2)


def _vae_dtype(settings: JobSettings, device: str) -> str:
    if settings.vae_precision != "auto":
        return settings.vae_precision
    return "float16" if device == "cuda" else "float32"


# --- one step smaller


def _smaller_stage(model: ModelPlan, stage: str) -> DiffusionPlan | None:
    """With less for one stage; None where it takes as little as it can."""
    plan = model.diffusion
    if plan is None:
        return None
    steps = {"encode": _encoding_less, "transformer": _shorter, "decode": _decoding_less}
    now = needs(model).stages[stage]
    less = (
        one
        for one in steps[stage](plan)
        if needs(replace(model, diffusion=one)).stages[stage] < now
    )
    return next(less, None)


def _encoding_less(plan: DiffusionPlan) -> Iterator[DiffusionPlan]:
    tile = plan.encode_tile
    while (tile := next_tile(tile, plan.padded)) is not None:
        yield replace(plan, encode_tile=tile)


def _decoding_less(plan: DiffusionPlan) -> Iterator[DiffusionPlan]:
    """Smaller tiles, then tiles that all of the decoder sees, which are the last resort."""
    tile = plan.decode_tile
    while (tile := next_tile(tile, plan.padded)) is not None:
        yield replace(plan, decode_tile=tile)
    if plan.decodes_whole_tiles:
        return
    tile = plan.decode_tile or next_tile(None, plan.padded)
    while tile is not None:
        yield replace(plan, decode_tile=tile, decodes_whole_tiles=True)
        tile = next_tile(tile, plan.padded)


def _shorter(plan: DiffusionPlan) -> Iterator[DiffusionPlan]:
    lengths = (clip for clip in CLIPS["cuda"] if clip < latents_of(plan))
    yield from (with_clip(plan, clip) for clip in lengths)


def _fewer_blocks(model: ModelPlan) -> DiffusionPlan | None:
    """All but the text's weights, then fewer and fewer whole blocks."""
    plan = model.diffusion
    if plan is None or plan.blocks_on_device == 0:
        return None
    layers = files.configs(model.model, plan)[0].layers
    stay = plan.blocks_on_device
    fewer = layers if stay is None else min(stay, layers) * 3 // 4
    less = replace(plan, blocks_on_device=fewer)
    if needs(replace(model, diffusion=less)).weights < needs(model).weights:
        return less
    return _fewer_blocks(replace(model, diffusion=less))
