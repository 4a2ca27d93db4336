"""Predicted memory, time and file size of a plan, from its numbers alone."""

from __future__ import annotations

from engine.media import MediaInfo
from engine.memory import rates as r
from engine.memory import wan_needs
from engine.memory.budget import PROGRAM_BYTES
from engine.memory.family import family_of
from engine.memory.rates import Rates
from engine.models import registry
from engine.models.lite.config import config_from_shapes
from engine.models.lite.cost import lite_cost
from engine.plan import Plan, StagePlan
from engine.tiling.grid import tile_grid
from engine.video import codecs

QUEUE_CLIPS = 2  # waiting between two stages; pipeline.run makes the queues of this length
_MOST_CORES = 16  # that work can be spread over
_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
# what an encoder keeps, in bytes for a pixel of the result: measured at 1920x1080
_ENCODER_BYTES = {"libx264": 115, "libx265": 190, "libsvtav1": 220}
_ENCODER_BYTES_OTHER = 24


def kind(plan: Plan) -> str:
    """Name under which the speed of such jobs is learned."""
    model = plan.model
    name = f"{model.model}-x{model.scale}"
    if model.weights_files and not model.weights_files[0].published:
        name += "-own"  # says nothing of the published model
    return f"{name}-{model.device}-{plan.picture.encoder}"


def tiles_per_frame(plan: Plan) -> int:
    """How many tiles a frame is cut into."""
    model = plan.model
    family = family_of(model)
    if family is not None:
        return family.tiles(model)
    if model.model == "none":
        return 1
    return len(tile_grid(plan.source_size, model.tile, model.overlap))


def peak_bytes(plan: Plan) -> int:
    """Most memory of the whole program at once."""
    found = _stage_bytes(plan)
    first = found.pop("decode", 0)  # it has ended before the others begin
    return PROGRAM_BYTES + max(first, sum(found.values()))


def stages(plan: Plan, threads: int, rates: Rates) -> tuple[StagePlan, ...]:
    """Memory and share of the time of each stage."""
    work = _cpu_seconds(plan)
    whole = seconds(plan, threads, rates)
    total = sum(work.values()) or 1.0
    memory = _stage_bytes(plan)
    return tuple(
        StagePlan(
            stage=stage,
            peak_bytes=PROGRAM_BYTES + memory.get(stage, 0),
            seconds=whole * work[stage] / total,
        )
        for stage in work
    )


def seconds(plan: Plan, threads: int, rates: Rates) -> float:
    """Predicted time: all work over the cores it can use, corrected by what was measured here."""
    work = sum(_cpu_seconds(plan).values()) / min(max(threads, 1), _MOST_CORES)
    return (1.0 + work) * rates.factor(kind(plan))


def output_bytes(plan: Plan, media: MediaInfo) -> int:
    """Predicted size: new picture by codec and quality, copied streams as they are."""
    picture = plan.picture
    bits = codecs.estimated_bits_per_pixel(picture) * picture.size.pixels * plan.frames
    duration = float(plan.frames / picture.frame_rate)
    copied = sum(s.bit_rate for s in media.streams) * duration
    return round((bits + copied) / 8)


def _stage_bytes(plan: Plan) -> dict[str, int]:
    model, picture = plan.model, plan.picture
    source_px, output_px = plan.source_size.pixels, picture.size.pixels
    planes_in = source_px * 4  # up to 4:4:4 of 16 bit, less for most
    planes_out = output_px * (3 if picture.bit_depth > 8 else 2)
    clip = model.clip_frames
    channels = 4 if picture.has_alpha else 3
    large = source_px * model.scale**2 * channels * 4
    upscale = clip * (source_px * channels * 4 + large)
    if model.model == "lite":
        config = config_from_shapes(registry.weights_shapes(model.weights))
        cost = lite_cost(config, model.tile, frames=clip, dtype_bytes=_DTYPE_BYTES[model.dtype])
        upscale += cost.peak_bytes + (2 * clip * large if model.tile != plan.source_size else 0)
    family = family_of(model)
    if family is not None:
        found = family.needs(model)
        upscale += found.host + (found.device if model.device == "cpu" else 0)
    encoder = output_px * _ENCODER_BYTES.get(picture.encoder, _ENCODER_BYTES_OTHER)
    return _decoding_bytes(plan) | {
        "read": planes_in * (16 + clip * (QUEUE_CLIPS + 2)),
        "upscale": upscale,
        "restore": clip * output_px * channels * 4 * 2,
        "write": encoder + planes_out * clip * (QUEUE_CLIPS + 2),
    }


def _decoding_bytes(plan: Plan) -> dict[str, int]:
    """Of a source of latents, which becomes a film first."""
    latent = plan.latent
    if latent is None:
        return {}
    found = wan_needs.latent_needs(latent, plan.source_size)
    return {"decode": found.host + (found.device if latent.device == "cpu" else 0)}


def _decoding_seconds(plan: Plan) -> dict[str, float]:
    """CPU seconds of that, the film written included."""
    latent = plan.latent
    if latent is None:
        return {}
    model = wan_needs.latent_work(latent, plan.source_size, plan.frames)
    model /= r.FLOPS[latent.device, latent.dtype]
    if latent.device == "cuda":
        model *= min(max(plan.model.threads, 1), _MOST_CORES)
    return {"decode": model + plan.source_size.pixels * plan.frames / 1e6 * r.ENCODE["ffv1"]}


def _cpu_seconds(plan: Plan) -> dict[str, float]:
    model, picture = plan.model, plan.picture
    source = plan.source_size.pixels * plan.frames / 1e6
    output = picture.size.pixels * plan.frames / 1e6
    family, upscale = family_of(model), 0.0
    if model.model == "lite":
        redone = tiles_per_frame(plan) * model.tile.pixels / plan.source_size.pixels
        rate = r.LITE_BF16 if model.dtype == "bfloat16" else r.LITE
        upscale = source * rate[model.scale] * redone
    elif family is not None:
        upscale = family.work(model, plan.frames) / r.FLOPS[model.device, model.dtype]
        if model.device == "cuda":  # the card works once, however many cores there are
            upscale *= min(max(model.threads, 1), _MOST_CORES)
    return _decoding_seconds(plan) | {
        "read": source * r.READ,
        "upscale": upscale,
        "restore": output * r.RESTORE,
        "write": output * r.ENCODE.get(picture.encoder, r.ENCODE_OTHER),
        "verify": output * r.VERIFY,
    }
