"""SeedVR2 jobs: files, sizes, clips and tiles; the largest that fit, then one step smaller."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import cast

from engine.media import VideoInfo
from engine.memory import fitting
from engine.memory.budget import Budget
from engine.memory.diffusion_needs import (
    STEP,
    latents_of,
    needs,
    stage_bytes,
    stage_work,
    streamed_bytes,
    tiles,
    work,
)
from engine.memory.edges import next_tile, tile_of
from engine.models.seedvr2 import files
from engine.models.seedvr2.frame_layout import layout_of, reference_layout
from engine.plan import DiffusionPlan, Join, ModelPlan, PicturePlan
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

WARM_UP = 6  # latents, where the carries of tiles do not fit into main memory
PINNED_SHARE = 0.4  # of main memory: with more of it pinned, systems begin to fail elsewhere
_CLIPS = {"cuda": (21, 17, 13, 9, 6, 4, 3, 2, 1), "cpu": (6, 4, 3, 2, 1)}  # latents


def choose(
    video: VideoInfo, picture: PicturePlan, settings: JobSettings, where: ModelPlan
) -> ModelPlan:
    """A SeedVR2 job at its largest.

    Args:
        video: Of the source.
        picture: Of the result.
        settings: What the user wants.
        where: Model, device, number format and threads.

    Raises:
        WeightsError: A file is not there, or is none of SeedVR2's.
    """
    found = files.files_of(where.model, settings)
    turned = (video.rotation - picture.rotation) % 360 in (90, 270)
    size = picture.size.transposed() if turned else picture.size
    layout = reference_layout(size) if settings.padding == "black" else layout_of(size)
    clip = _clip_latents(settings, where.device)
    whole = _in_frames(clip, settings) if settings.join != "latents" else (clip, _shared(clip))
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
        products=settings.products,
        strength=settings.strength,
        seed=settings.seed,
        noise_order=settings.noise_order,
        input_noise=settings.input_noise,
        latent_noise=settings.latent_noise,
        colour=settings.colour,
        shot_sensitivity=settings.shot_sensitivity if settings.shots == "auto" else None,
    )
    return replace(where, clip_frames=STEP, tile=size, diffusion=diffusion)


def smaller(model: ModelPlan) -> ModelPlan | None:
    """The same with less on the device: whatever needs most becomes smaller; None at the floor."""
    plan = model.diffusion
    if plan is None:
        return None
    now = needs(model)
    order = sorted(
        ((now.decode, _smaller_decode), (now.encode, _smaller_encode), (now.transformer, _shorter)),
        key=lambda pair: -pair[0],
    )
    steps = [step for _, step in order]
    # the stages take turns: only less of the largest one helps, or less beside all of them
    layers = files.configs(model.model, plan)[0].layers
    fewer = partial(_fewer_blocks, layers=layers)
    steps.insert(0 if now.weights > order[0][0] else 1, fewer)
    for step in steps:
        less = step(plan)
        if less is not None:
            return replace(model, diffusion=less)
    return None


def less_on_host(model: ModelPlan) -> ModelPlan | None:
    """The same with less in main memory; None at the floor."""
    plan = model.diffusion
    if plan is None:
        return None
    if (plan.decode_tile or plan.encode_tile) and not plan.warm_up:
        return replace(model, diffusion=replace(plan, warm_up=WARM_UP))
    shorter = _shorter(plan)
    return None if shorter is None else replace(model, diffusion=shorter)


def wider(model: ModelPlan) -> ModelPlan | None:
    """The same with a VAE whose numbers do not overflow; None where they are as wide as can be."""
    plan = model.diffusion
    if plan is None or plan.vae_dtype == "float32":
        return None
    return replace(model, diffusion=replace(plan, vae_dtype="float32"))


def fitted(model: ModelPlan, budget: Budget, host_bytes: int) -> ModelPlan:
    """The largest plan within the budget; the smallest one where none is.

    Args:
        model: At its largest.
        budget: What the machine has.
        host_bytes: That the rest of the job takes of main memory.
    """
    steps = fitting.Steps(needs=needs, smaller=smaller, less_on_host=less_on_host)
    return _pinned(fitting.fitted(model, steps, budget, host_bytes), budget, host_bytes)


def _pinned(model: ModelPlan, budget: Budget, host_bytes: int) -> ModelPlan:
    """With copies of streamed weights in main memory, as far as there is room for them."""
    plan, streamed = model.diffusion, streamed_bytes(model)
    if plan is None or not streamed:
        return model
    room = budget.ram_bytes - host_bytes - needs(model).host
    pinned = max(0, min(streamed, room, int(PINNED_SHARE * budget.ram_bytes)))
    return replace(model, diffusion=replace(plan, pin_bytes=pinned))


# --- choices


def _clip_latents(settings: JobSettings, device: str) -> int:
    if settings.clip_frames:
        return 1 + -(-(settings.clip_frames - 1) // STEP)
    return _CLIPS["cuda" if device == "cuda" else "cpu"][0]


def _shared(clip: int) -> int:
    """Latents that clips share: two, or as many as are less than half of them."""
    return min(2, (clip - 1) // 2)


def _in_frames(clip: int, settings: JobSettings) -> tuple[int, int]:
    frames = 1 + (clip - 1) * STEP
    shared = settings.join_frames if settings.join == "frames" else 0
    return frames, min(shared, (frames - 1) // 2)


def _vae_dtype(settings: JobSettings, device: str) -> str:
    if settings.vae_precision != "auto":
        return settings.vae_precision
    return "float16" if device == "cuda" else "float32"


# --- one step smaller


def _smaller_decode(plan: DiffusionPlan) -> DiffusionPlan | None:
    tile = next_tile(plan.decode_tile, plan.padded)
    return None if tile is None else replace(plan, decode_tile=tile)


def _smaller_encode(plan: DiffusionPlan) -> DiffusionPlan | None:
    tile = next_tile(plan.encode_tile, plan.padded)
    return None if tile is None else replace(plan, encode_tile=tile)


def _shorter(plan: DiffusionPlan) -> DiffusionPlan | None:
    lengths = [clip for clip in _CLIPS["cuda"] if clip < latents_of(plan)]
    if not lengths:
        return None
    if plan.join == "latents":
        return replace(plan, clip=lengths[0], shared=_shared(lengths[0]))
    frames = 1 + (lengths[0] - 1) * STEP
    return replace(plan, clip=frames, shared=min(plan.shared, (frames - 1) // 2))


def _fewer_blocks(plan: DiffusionPlan, layers: int) -> DiffusionPlan | None:
    """All but the text's weights, then fewer and fewer whole blocks."""
    if plan.blocks_on_device is None:
        return replace(plan, blocks_on_device=layers)
    if plan.blocks_on_device == 0:
        return None
    return replace(plan, blocks_on_device=min(plan.blocks_on_device, layers) * 3 // 4)
