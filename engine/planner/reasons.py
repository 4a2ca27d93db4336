"""Why a plan is as it is, in words: what was chosen, what limits it, one step more and one less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine.core.geometry import Size
from engine.core.units import memory_text
from engine.models import registry
from engine.models.seedvr2 import files
from engine.models.seedvr2.planning import requirements as seedvr2
from engine.models.seedvr2.planning.requirements import STEP
from engine.models.wan.files import wan_config
from engine.models.wan.planning import requirements as wan
from engine.models.wan.vae.split import encode_tiles
from engine.planner.alternatives import Step, steps
from engine.protocol.plan import (
    Alternative,
    DiffusionPlan,
    Limit,
    ModelPlan,
    Notice,
    Plan,
    Reasons,
    WanPlan,
)
from engine.settings.schema import JobSettings
from engine.tiling.grid import tile_grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a way of running the model takes of the whole job: bytes and seconds."""

    device_bytes: int
    ram_bytes: int
    seconds: float


Priced = Callable[[ModelPlan], Price]


def reasons_of(plan: Plan, settings: JobSettings, priced: Priced) -> Reasons:
    """The reasons for a plan.

    Args:
        plan: With its predictions.
        settings: What the user wants.
        priced: What another way of running the same model would take.
    """
    fits = all(notice.code != "plan-does-not-fit" for notice in plan.notices)
    found = tuple(_alternative(plan, step, priced(step.model)) for step in _steps(plan, fits=fits))
    limited_by = _limit(plan, settings, [one for one in found if one.code in _MORE])
    return Reasons(
        limited_by=limited_by,
        message=_limit_words(plan, limited_by),
        params={
            "needed": str(plan.device_bytes or plan.peak_bytes),
            "allowed": str(plan.device_budget_bytes or plan.budget_bytes),
        },
        choices=tuple(_choices(plan)),
        alternatives=found,
    )


# --- what limits

_MORE = {
    "longer-clips",
    "larger-decode-tiles",
    "larger-encode-tiles",
    "more-blocks-on-card",
    "tiles-that-remember",
}
_WISHES = ("clip_frames", "encode_tile", "decode_tile", "tile")  # 0 as large as fits


def _limit(plan: Plan, settings: JobSettings, more: list[Alternative]) -> Limit:
    on_card = plan.model.device == "cuda"
    more = [*more, _itself(plan)]
    if on_card and any(one.device_bytes > plan.device_budget_bytes for one in more):
        return "video-memory"
    if any(one.ram_bytes > plan.budget_bytes for one in more):
        return "memory"
    wished = any(getattr(settings, name) for name in _WISHES) or settings.blocks_on_device >= 0
    return "settings" if wished else "nothing"


def _itself(plan: Plan) -> Alternative:
    return Alternative(
        code="",
        message="",
        device_bytes=plan.device_bytes,
        ram_bytes=plan.peak_bytes,
        seconds=plan.seconds,
        fits=True,
    )


def _limit_words(plan: Plan, limit: Limit) -> str:
    if limit == "video-memory":
        return (
            f"The memory of the card decides: {memory_text(plan.device_budget_bytes)} may be used, "
            f"{memory_text(plan.device_bytes)} are needed at most."
        )
    if limit == "memory":
        return (
            f"Main memory decides: {memory_text(plan.budget_bytes)} may be used, "
            f"{memory_text(plan.peak_bytes)} are needed at most."
        )
    if limit == "settings":
        return "Your own choices decide; memory is not short."
    return "Nothing is short: this is the fastest way of doing it."


# --- what was chosen


def _choices(plan: Plan) -> Iterator[Notice]:
    model = plan.model
    yield _said("model", _model_words(model))
    if model.diffusion is not None:
        yield from _diffusion(model, model.diffusion)
    elif model.wan is not None:
        yield from _wan(model, model.wan)
    elif model.model != "none":
        yield _said("tiles", _tiles_words("Frames are redrawn", model.tiles, model.tile))


def _said(code: str, message: str, **params: object) -> Notice:
    values = {name: str(value) for name, value in params.items()}
    return Notice(code=code, severity="info", message=message, params=values)


def _model_words(model: ModelPlan) -> str:
    if model.model == "none":
        return "No model: the picture is only converted."
    if not model.takes_shots:
        kind = "damaged" if model.form == "restore" else "clean"
        return f"Lite for {kind} sources, {model.scale} times as wide and high."
    title, name = _title(model.model), model.weights_files[0].path.name
    vae = "" if model.diffusion is None else model.diffusion.vae_dtype
    if vae and vae != model.dtype:
        return f"{title} from {name}, computed in {model.dtype}, its VAE in {vae}."
    return f"{title} from {name}, computed in {model.dtype}."


def _title(model: str) -> str:
    return registry.SPECS[model].title


def _diffusion(model: ModelPlan, plan: DiffusionPlan) -> Iterator[Notice]:
    frames, shared = _clip_frames(plan), _shared_frames(plan)
    if frames == 1:
        words = "Every frame by itself."
    elif shared:
        words = f"Clips of {frames} frames, {shared} of them shared with the next clip."
    else:
        words = f"Clips of {frames} frames."
    yield _said("clips", words, frames=frames, shared=shared)
    count = 1
    if plan.encode_tile is not None:
        overlap = seedvr2.ENCODE_OVERLAP_PX
        count = len(tile_grid(plan.padded, plan.encode_tile, overlap))
    yield _said("encode", _tiles_words("Frames are encoded", count, plan.encode_tile))
    count = seedvr2.tiles(model)
    words = _tiles_words("Frames are decoded", count, plan.decode_tile)
    if plan.decodes_whole_tiles:
        words = words.removesuffix(".") + ", each by itself, and blended."
    yield _said("decode", words)
    if model.device == "cuda":
        yield from _blocks(model, plan)
    yield from _early(plan.warm_up, plan.encode_tile or plan.decode_tile, model)


def _blocks(model: ModelPlan, plan: DiffusionPlan) -> Iterator[Notice]:
    layers = files.configs(model.model, plan)[0].layers
    stay = plan.blocks_on_device
    if stay is None:
        yield _said("blocks", "The whole model stays on the card.", blocks=layers, layers=layers)
        return
    words = "its text part comes" if stay >= layers else "the others come"
    yield _said(
        "blocks",
        f"{stay} of {layers} blocks of the model stay on the card; {words} from main memory for "
        "every clip.",
        blocks=stay,
        layers=layers,
    )
    if plan.pin_bytes:
        size = memory_text(plan.pin_bytes)
        yield _said("copies", f"{size} of main memory hold copies that come fast.", size=size)


def _wan(model: ModelPlan, plan: WanPlan) -> Iterator[Notice]:
    config = wan_config(plan.vae, model.model)
    encode = len(encode_tiles(config, plan.padded, plan.encode_tile))
    decode = wan.tiles(model)
    yield _said("encode", _tiles_words("Frames are encoded", encode, plan.encode_tile))
    yield _said("decode", _tiles_words("Frames are decoded", decode, plan.decode_tile))
    if plan.parks:
        words = "What whole frames leave behind waits in main memory while tiles are visited."
        yield _said("parks", words)
    yield from _early(plan.warm_up, plan.encode_tile or plan.decode_tile, model)


def _early(latents: int, tile: Size | None, model: ModelPlan) -> Iterator[Notice]:
    if latents and tile is not None and model.device == "cuda":
        frames = STEP * latents
        words = (
            f"Tiles begin {frames} frames early: main memory has no room for what they would have "
            "to remember."
        )
        yield _said("early", words, frames=frames)


def _tiles_words(what: str, count: int, tile: Size | None) -> str:
    return f"{what} whole." if tile is None or count == 1 else f"{what} in {count} tiles of {tile}."


def _clip_frames(plan: DiffusionPlan) -> int:
    return plan.clip if plan.join != "latents" else 1 + STEP * (plan.clip - 1)


def _shared_frames(plan: DiffusionPlan) -> int:
    return plan.shared if plan.join != "latents" else STEP * plan.shared


# --- one step away


def _steps(plan: Plan, *, fits: bool) -> list[Step]:
    """From a plan that fits; the smallest that does not has nothing to be compared with."""
    return list(steps(plan.model)) if fits else []


def _alternative(plan: Plan, step: Step, price: Price) -> Alternative:
    on_card = step.model.device == "cuda"
    fits_card = price.device_bytes <= plan.device_budget_bytes or not on_card
    return Alternative(
        code=step.code,
        message=_step_words(step),
        device_bytes=price.device_bytes,
        ram_bytes=price.ram_bytes,
        seconds=price.seconds,
        fits=fits_card and price.ram_bytes <= plan.budget_bytes,
        params=_values(step.model),
    )


def _step_words(step: Step) -> str:
    plan = step.model.diffusion
    part = plan or step.model.wan
    if part is None:
        return step.code
    if step.code.endswith("-decode-tiles"):
        return _of_tiles("Decoded", part.decode_tile)
    if step.code.endswith("-encode-tiles"):
        return _of_tiles("Encoded", part.encode_tile)
    if step.code == "tiles-that-remember":
        return "Tiles that go on where they ended"
    if plan is None or step.code.endswith("-clips"):
        frames = 1 if plan is None else _clip_frames(plan)
        return f"Clips of {frames} frames" if frames > 1 else "Every frame by itself"
    if plan.blocks_on_device is None:
        return "The whole model on the card"
    return f"{plan.blocks_on_device} blocks on the card"


def _of_tiles(verb: str, tile: Size | None) -> str:
    return f"{verb} as whole frames" if tile is None else f"{verb} in tiles of {tile}"


def _values(model: ModelPlan) -> dict[str, str]:
    """What the setting of the step would be."""
    part = model.diffusion or model.wan
    if part is None:
        return {}
    found = {
        "encode_tile": _edge(part.encode_tile),
        "decode_tile": _edge(part.decode_tile),
    }
    if model.diffusion is not None:
        stay = model.diffusion.blocks_on_device
        found["clip_frames"] = str(_clip_frames(model.diffusion))
        found["blocks_on_device"] = "-1" if stay is None else str(stay)
    return found


def _edge(tile: Size | None) -> str:
    return "0" if tile is None else str(max(tile.width, tile.height))
