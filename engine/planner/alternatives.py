"""One step away from a plan: what could be more of, and what less; from numbers alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine.core.geometry import Size
from engine.models.seedvr2 import files
from engine.models.seedvr2.planning import requirements
from engine.models.seedvr2.planning.search import (
    BLOCKS_STEP,
    CLIPS,
    decoder_tiles,
    encoder_tiles,
    with_clip,
)
from engine.models.wan.files import wan_config
from engine.models.wan.planning.search import wan_tiles
from engine.protocol.plan import DiffusionPlan, ModelPlan, WanPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Another way of running the same model.

    Attributes:
        code: As in `Alternative`.
        model: The way.
        is_more: Whether it needs more memory than the way that is planned.
    """

    code: str
    model: ModelPlan
    is_more: bool


def steps(model: ModelPlan) -> Iterator[Step]:
    """Every step that there is, those to more memory first."""
    found = list(_diffusion(model) if model.diffusion is not None else _wan(model))
    yield from sorted(found, key=lambda step: not step.is_more)


def _diffusion(model: ModelPlan) -> Iterator[Step]:
    plan = model.diffusion
    if plan is None:
        return
    config, vae = files.configs(model.model, plan)
    found: list[tuple[str, DiffusionPlan, bool]] = []
    for more, word in ((True, "larger"), (False, "smaller")):
        clip = _clip(plan, more=more)
        if clip is not None:
            code = "longer-clips" if more else "shorter-clips"
            found.append((code, with_clip(plan, clip), more))
        worth = decoder_tiles(vae, plan.padded, is_whole=plan.decodes_whole_tiles)
        for tile in _next(worth, plan.decode_tile, more=more, whole=not plan.decodes_whole_tiles):
            found.append((f"{word}-decode-tiles", replace(plan, decode_tile=tile), more))
        worth = encoder_tiles(vae, plan.padded)
        for tile in _next(worth, plan.encode_tile, more=more, whole=True):
            found.append((f"{word}-encode-tiles", replace(plan, encode_tile=tile), more))
        if model.device == "cuda":
            yield from _blocks(model, plan, config.layers, more=more)
    if plan.warm_up and model.device == "cuda" and (plan.encode_tile or plan.decode_tile):
        found.append(("tiles-that-remember", replace(plan, warm_up=0), True))
    yield from (_step(code, model, one, is_more=more) for code, one, more in found)


def _step(code: str, model: ModelPlan, plan: DiffusionPlan, *, is_more: bool) -> Step:
    return Step(code=code, model=replace(model, diffusion=plan), is_more=is_more)


def _clip(plan: DiffusionPlan, *, more: bool) -> int | None:
    """The next length in latents; None where there is none."""
    now, usual = requirements.latents_of(plan), CLIPS["cuda"]
    if more:
        return min((clip for clip in usual if clip > now), default=None)
    return max((clip for clip in usual if clip < now), default=None)


def _blocks(model: ModelPlan, plan: DiffusionPlan, layers: int, *, more: bool) -> Iterator[Step]:
    stay = plan.blocks_on_device
    if more and stay is not None:
        wanted = None if stay >= layers else min(layers, stay + BLOCKS_STEP)
        less = replace(plan, blocks_on_device=wanted, pin_bytes=0)
        streamed = requirements.streamed_bytes(replace(model, diffusion=less))
        less = replace(less, pin_bytes=min(plan.pin_bytes, streamed))
        yield _step("more-blocks-on-card", model, less, is_more=True)
    if not more and stay != 0:
        wanted = layers if stay is None else max(0, min(stay, layers) - BLOCKS_STEP)
        yield _step(
            "fewer-blocks-on-card", model, replace(plan, blocks_on_device=wanted), is_more=False
        )


def _wan(model: ModelPlan) -> Iterator[Step]:
    plan = model.wan
    if plan is None:
        return
    encode, decode = wan_tiles(wan_config(plan.vae, model.model), plan.padded)
    found: list[tuple[str, WanPlan, bool]] = []
    for more, word in ((True, "larger"), (False, "smaller")):
        for tile in _next(decode, plan.decode_tile, more=more, whole=True):
            found.append((f"{word}-decode-tiles", replace(plan, decode_tile=tile), more))
        for tile in _next(encode, plan.encode_tile, more=more, whole=True):
            found.append((f"{word}-encode-tiles", replace(plan, encode_tile=tile), more))
    if plan.warm_up and model.device == "cuda" and (plan.encode_tile or plan.decode_tile):
        found.append(("tiles-that-remember", replace(plan, warm_up=0), True))
    for code, one, more in found:
        yield Step(code=code, model=replace(model, wan=one), is_more=more)


def _next(
    worth: Sequence[Size], tile: Size | None, *, more: bool, whole: bool
) -> Iterator[Size | None]:
    """The next tile, if there is one; None are whole frames, which come where they may."""
    if tile is None:
        if not more:
            yield from worth[:1]
        return
    if not more:
        yield from [one for one in worth if one.pixels < tile.pixels][:1]
        return
    larger = [one for one in worth if one.pixels > tile.pixels]
    if larger:
        yield larger[-1]
    elif whole:
        yield None
