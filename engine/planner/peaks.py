"""Predicted memory of a plan, stage by stage, from its numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.geometry import Size
from engine.hardware.budget import PROGRAM_BYTES
from engine.models import registry
from engine.models.lite.config import config_from_shapes
from engine.models.lite.cost import lite_cost
from engine.models.planning.search import Needs
from engine.models.wan.planning import requirements
from engine.planner.families import family_of
from engine.protocol.plan import ModelPlan, Plan

QUEUE_CLIPS = 2  # waiting between two stages; pipeline.run makes the queues of this length
_PLANES_IN = 4  # bytes of a px as decoded: up to 4:4:4 of 16 bit, less for most
_FLOAT = 4
_RGB = 3 * _FLOAT
_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
# what an encoder keeps, in bytes for a pixel of the result: measured at 1920x1080
_ENCODER_BYTES = {"libx264": 115, "libx265": 190, "libsvtav1": 220}
_ENCODER_BYTES_OTHER = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Bytes of one stage while it works.

    Attributes:
        ram: Of main memory, without what the program needs with nothing to do.
        device: On the card, weights included; 0 for what a processor computes.
    """

    ram: int
    device: int = 0


def ram_bytes(plan: Plan) -> int:
    """Most main memory of the whole program at once."""
    found = stage_peaks(plan)
    first = found.pop("latents", Peak(ram=0)).ram  # it has ended before the others begin
    return PROGRAM_BYTES + max(first, _together(found))


def device_bytes(plan: Plan) -> int:
    """Most memory of the card at once."""
    return max(peak.device for peak in stage_peaks(plan).values())


def stage_peaks(plan: Plan) -> dict[str, Peak]:
    """By stage: "latents" where a film is made of them first, then from "read" to "write"."""
    model, picture = plan.model, plan.picture
    planes_in = plan.source_size.pixels * _PLANES_IN
    planes_out = picture.size.pixels * (3 if picture.bit_depth > 8 else 2)
    encoder = picture.size.pixels * _ENCODER_BYTES.get(picture.encoder, _ENCODER_BYTES_OTHER)
    family = family_of(model)
    needs = None if family is None else family.needs(model)
    waiting = 0 if needs is None else needs.waiting
    finished = model.clip_frames if needs is None else needs.finished
    found = _frame_by_frame(plan) if needs is None else _through_shots(plan, needs)
    return {
        **_latents(plan),
        "read": Peak(ram=planes_in * (16 + waiting + model.clip_frames * (QUEUE_CLIPS + 2))),
        **found,
        "write": Peak(ram=encoder + (planes_out + planes_in) * finished * (QUEUE_CLIPS + 2)),
    }


def _together(found: dict[str, Peak]) -> int:
    """What one thread does takes turns, reading and writing go on beside it."""
    turns = max((found.pop(name).ram for name in ONE_THREAD if name in found), default=0)
    return turns + sum(peak.ram for peak in found.values())


MODEL_STAGES = ("upscale", "encode", "transformer", "decode")
ONE_THREAD = (*MODEL_STAGES, "restore")


def _through_shots(plan: Plan, needs: Needs) -> dict[str, Peak]:
    """Where the model takes shots; each stage beside what the job keeps."""
    model, on_card = plan.model, plan.model.device == "cuda"
    source = _rgb(plan, plan.source_size, model.clip_frames)
    restoring = _restoring(plan, _canvas(model), needs.finished)
    sizes = {name: size + source for name, size in needs.stages.items()}
    sizes["decode"] += _rgb(plan, plan.source_size, needs.finished)
    sizes["restore"] = needs.weights + needs.finishing + 2 * source + restoring
    hosts = {**needs.hosts, "restore": needs.hosts["finishing"]}
    return {
        stage: Peak(ram=hosts[stage] + (0 if on_card else size), device=size if on_card else 0)
        for stage, size in sizes.items()
    }


def _frame_by_frame(plan: Plan) -> dict[str, Peak]:
    """Where frames are enlarged one by one, clip after clip."""
    model, frames = plan.model, plan.model.clip_frames
    source = _rgb(plan, plan.source_size, frames)
    large = plan.source_size.scaled(model.scale)
    upscaling, weights = 0, 0
    if model.model == "lite":
        upscaling, weights = _lite(model, plan.source_size)
    held = source + (0 if model.model == "none" else frames * large.pixels * _RGB)
    sizes = {
        "upscale": weights + source + upscaling,
        "restore": weights + held + _restoring(plan, large, frames),
    }
    if model.device == "cuda":
        return {stage: Peak(ram=0, device=size) for stage, size in sizes.items()}
    return {stage: Peak(ram=size) for stage, size in sizes.items()}


def _lite(model: ModelPlan, frame: Size) -> tuple[int, int]:
    """Bytes of enlarging a clip, the result included, and of the weights."""
    config = config_from_shapes(registry.weights_shapes(model.weights))
    frames, item = model.clip_frames, _DTYPE_BYTES[model.dtype]
    cost = lite_cost(config, model.tile, frames=frames, dtype_bytes=item)
    working = cost.activations + cost.workspace
    if model.tile == frame:
        return working, cost.weights
    tile = frames * model.tile.scaled(model.scale).pixels * _RGB  # of the one before, too
    large = frame.scaled(model.scale).pixels
    canvas = large * (frames * _RGB + _FLOAT)
    return canvas + tile + max(working, tile), cost.weights


def _canvas(model: ModelPlan) -> Size:
    """Size of the pictures that a model of shots makes."""
    if model.wan is not None:
        return model.wan.canvas
    return model.tile if model.diffusion is None else model.diffusion.size


def _rgb(plan: Plan, size: Size, frames: int) -> int:
    """Bytes of frames in RGB, with alpha where the picture has it."""
    return frames * size.pixels * _FLOAT * (4 if plan.picture.has_alpha else 3)


def _restoring(plan: Plan, large: Size, frames: int) -> int:
    """Bytes of making exact sizes and code values of large frames, beside these."""
    picture = plan.picture.size
    whole = _rgb(plan, picture, frames)
    resized = whole if large.pixels != picture.pixels else 0
    if plan.picture.has_alpha:
        resized += whole
    return resized + (2 * whole if plan.picture.chroma in ("444", "rgb") else 3 * whole // 2)


def _latents(plan: Plan) -> dict[str, Peak]:
    """Of a source of latents, which becomes a film first."""
    latent = plan.latent
    if latent is None:
        return {}
    found = requirements.latent_needs(latent, plan.source_size)
    is_cpu = latent.device == "cpu"
    ram = found.host + (found.device if is_cpu else 0)
    return {"latents": Peak(ram=ram, device=0 if is_cpu else found.device)}
