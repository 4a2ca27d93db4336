"""Predicted memory of a plan, stage by stage, from its numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

from engine.memory import wan_needs
from engine.memory.budget import PROGRAM_BYTES
from engine.memory.family import family_of
from engine.models import registry
from engine.models.lite.config import config_from_shapes
from engine.models.lite.cost import lite_cost
from engine.plan import Plan

QUEUE_CLIPS = 2  # waiting between two stages; pipeline.run makes the queues of this length
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
    source_px, output_px = plan.source_size.pixels, picture.size.pixels
    planes_in = source_px * 4  # up to 4:4:4 of 16 bit, less for most
    planes_out = output_px * (3 if picture.bit_depth > 8 else 2)
    clip = model.clip_frames
    channels = 4 if picture.has_alpha else 3
    encoder = output_px * _ENCODER_BYTES.get(picture.encoder, _ENCODER_BYTES_OTHER)
    return {
        **_latents(plan),
        "read": Peak(ram=planes_in * (16 + clip * (QUEUE_CLIPS + 2))),
        **_model(plan),
        "restore": Peak(ram=clip * output_px * channels * 4 * 2),
        "write": Peak(ram=encoder + planes_out * clip * (QUEUE_CLIPS + 2)),
    }


def _together(found: dict[str, Peak]) -> int:
    """Stages of the model take turns, the others run beside them."""
    turns = max((found.pop(name).ram for name in MODEL_STAGES if name in found), default=0)
    return turns + sum(peak.ram for peak in found.values())


MODEL_STAGES = ("upscale", "encode", "transformer", "decode")


def _model(plan: Plan) -> dict[str, Peak]:
    """Of what the model computes; stages take turns, so each holds what the job keeps."""
    model, source_px = plan.model, plan.source_size.pixels
    channels = 4 if plan.picture.has_alpha else 3
    large = source_px * model.scale**2 * channels * 4
    frames = model.clip_frames * (source_px * channels * 4 + large)
    family = family_of(model)
    if family is not None:
        host = family.needs(model).host
        return {
            stage: Peak(
                ram=frames + host + (size if model.device == "cpu" else 0),
                device=size if model.device == "cuda" else 0,
            )
            for stage, size in family.stage_bytes(model).items()
        }
    if model.model == "lite":
        config = config_from_shapes(registry.weights_shapes(model.weights))
        cost = lite_cost(
            config, model.tile, frames=model.clip_frames, dtype_bytes=_DTYPE_BYTES[model.dtype]
        )
        whole = model.tile == plan.source_size
        frames += cost.peak_bytes + (0 if whole else 2 * model.clip_frames * large)
    on_card = model.device == "cuda"
    return {"upscale": Peak(ram=frames, device=frames if on_card else 0)}


def _latents(plan: Plan) -> dict[str, Peak]:
    """Of a source of latents, which becomes a film first."""
    latent = plan.latent
    if latent is None:
        return {}
    found = wan_needs.latent_needs(latent, plan.source_size)
    is_cpu = latent.device == "cpu"
    ram = found.host + (found.device if is_cpu else 0)
    return {"latents": Peak(ram=ram, device=0 if is_cpu else found.device)}
