"""Memory and operations of jobs with a Wan VAE, from plans alone."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from engine.core.geometry import Size
from engine.models.planning.memory import (
    SOURCE_BYTES,
    MemoryRequirement,
    PhaseMemory,
    Streamed,
    peak_use,
)
from engine.models.video_vae.vae_use import SliceWork
from engine.models.wan import files
from engine.models.wan.plan import WanPlan
from engine.models.wan.vae import split
from engine.models.wan.vae.config import WanConfig
from engine.models.wan.vae_memory import (
    STEP,
    VAES,
    Pass,
    decode_tiles,
    decode_way,
    encode_tiles,
    encode_way,
    features_of,
)
from engine.tiling.latent_clips import padded_length

_LEAVING_BYTES = 48  # of a picture that is being finished in float32, for each of its px
_FRAME_BYTES = 12  # of a frame that is ready to be encoded, for each of its px
_SMALL_BYTES = 64 * 2**10  # means, deviations, biases
_NOTHING = Streamed(
    begins=PhaseMemory(0),
    steady=(PhaseMemory(0),),
    between=PhaseMemory(0),
    waits=PhaseMemory(0),
    buffers=0,
)


@lru_cache(maxsize=4096)
def needs(plan: WanPlan) -> MemoryRequirement:
    """Memory of a plan."""
    encode, decode = passes(plan)
    if plan.stages != WanPlan.stages:
        return encode_needs(encode) if "encode" in plan.stages else decode_needs(decode)
    waiting = STEP * (_delay(encode) + _delay(decode))
    found = _job(encode, encode_way(encode), decode_way(decode))
    sources = waiting * encode.frame.pixels * SOURCE_BYTES
    return replace(found, waiting=waiting, sources=sources)


def encode_needs(asked: Pass) -> MemoryRequirement:
    """Memory of a job that only encodes."""
    return _job(asked, encode_way(asked), _NOTHING)


def decode_needs(asked: Pass) -> MemoryRequirement:
    """Memory of a job that only decodes."""
    return _job(asked, _NOTHING, decode_way(asked))


def _job(asked: Pass, encode: Streamed, decode: Streamed) -> MemoryRequirement:
    """Memory of both directions, which take turns and share their buffers."""
    buffers = max(encode.buffers, decode.buffers)
    frames = (asked.slice_frames + 1) * asked.frame.pixels * _FRAME_BYTES
    held = PhaseMemory((frames if encode is not _NOTHING else 0) + _latents(asked) + _SMALL_BYTES)
    canvas = asked.frame.pixels * asked.config.upscale**2
    ready = (
        held + encode.waits + decode.between + PhaseMemory(buffers + decode.result, decode.canvas)
    )
    other = PhaseMemory(buffers - decode.buffers) + held + encode.waits
    finishing = ready + PhaseMemory(_LEAVING_BYTES * canvas)
    encoding = PhaseMemory(buffers - encode.buffers) + held
    opening, reopening = (PhaseMemory(buffers - way.opens) for way in (encode, decode))
    between = PhaseMemory(buffers) + held + encode.between + decode.waits
    uses = {
        "encode": (
            opening + held + encode.begins,
            *(encoding + decode.waits + use for use in encode.steady),
            between + PhaseMemory(2 * frames),
        ),
        "decode": (
            reopening + held + encode.waits + decode.begins,
            *(other + use for use in decode.steady),
            finishing,
        ),
        "finishing": (ready + PhaseMemory(2 * _FRAME_BYTES * canvas),),
        "between": (between,),
    }
    if encode is _NOTHING:
        uses["encode"] = (PhaseMemory(0),)
    if decode is _NOTHING:
        uses["decode"] = uses["finishing"] = (PhaseMemory(0),)
    most = {name: peak_use(some, on_gpu=asked.on_gpu) for name, some in uses.items()}
    return MemoryRequirement(
        weights=VAES.weights(asked.config, asked.use),
        working={name: most[name].device for name in ("encode", "decode")},
        finishing=most["finishing"].device,
        between=most["between"].device,
        hosts={name: use.host for name, use in most.items()},
        measuring=VAES.measuring(asked.config, asked.use),
    )


def _latents(asked: Pass) -> int:
    """Bytes of latents on their way, and of the log-variances that come with them."""
    config, count = asked.config, asked.visit if len(encode_tiles(asked)) > 1 else 1
    positions = asked.frame.pixels // config.spatial_factor**2
    return 3 * count * positions * config.latent_channels * asked.item


def _delay(asked: Pass) -> int:
    """Latents that wait for their result."""
    return asked.visit if asked.tile is not None else max(1, asked.slice_frames // STEP)


def stage_work(plan: WanPlan, frames: int) -> dict[str, SliceWork]:
    """Work of a shot of n frames, stage by stage; frames computed twice count twice."""
    encode, decode = passes(plan)
    boxes, cut = encode_tiles(encode), split.encode_cut(encode.config)
    made = _work(encode, "encode_slice", frames)
    found = {"encode": made.in_tiles(_repeated(encode, boxes, cut), len(boxes))}
    boxes, cut = decode_tiles(decode), split.decode_cut(decode.config)
    made = _work(decode, "decode_slice", frames)
    found["decode"] = made.in_tiles(_repeated(decode, boxes, cut), len(boxes))
    return {stage: found[stage] for stage in plan.stages}


def parked_bytes(plan: WanPlan, frames: int) -> tuple[dict[str, float], float]:
    """Bytes of carries that are parked for n frames, there and back, by stage.

    The second value is the share of them for which there is pinned memory.
    """
    encode, decode = passes(plan)
    carries = {"encode": 0, "decode": 0}
    if plan.parks:
        if len(encode_tiles(encode)) > 1:
            carries["encode"] = encode.peak("encode_low").carry
        if len(decode_tiles(decode)) > 1:
            carries["decode"] = decode.peak("decode_low").carry
    again = -(-frames // (STEP * encode.visit)) - 1
    at_a_time = sum(carries.values())
    pinned = plan.park_pin_bytes if plan.pins else 0
    share = min(1.0, pinned / at_a_time) if at_a_time else 0.0
    return {stage: 2.0 * again * size for stage, size in carries.items()}, share


def _work(asked: Pass, call: str, frames: int) -> SliceWork:
    """Work of a shot in whole frames."""
    found = VAES.work(asked.config, call, asked.use, asked.frame)
    return found.total(padded_length(frames, STEP), STEP)


def padded_size(config: WanConfig, size: Size) -> Size:
    """Size of the frames that are encoded: the next multiple of what the VAE takes."""
    each = config.spatial_factor
    return Size(-(-size.width // each) * each, -(-size.height // each) * each)


def passes(plan: WanPlan) -> tuple[Pass, Pass]:
    """Use of the VAE by a plan."""
    encode = Pass(
        config=files.wan_config(plan.vae, plan.model),
        frame=plan.padded,
        device=plan.device,
        dtype=plan.dtype,
        tile=plan.encode_tile,
        slice_frames=plan.clip_frames,
        warm_up=plan.warm_up,
        parks=plan.parks,
        switches=plan.switches.vae,
        at_once=plan.encode_at_once,
    )
    drips = "encode" in plan.stages and len(encode_tiles(encode)) == 1
    decode = replace(encode, tile=plan.decode_tile, drips=drips, at_once=plan.decode_at_once)
    return encode, decode


def tiles(plan: WanPlan) -> dict[str, int]:
    """Tiles of a frame, by direction."""
    encode, decode = passes(plan)
    return {"encode": len(encode_tiles(encode)), "decode": len(decode_tiles(decode))}


def _repeated(asked: Pass, boxes: list[split.TileBox], cut: split.Cut) -> float:
    """Number of times a frame is computed: tiles overlap, and may begin early."""
    if len(boxes) == 1:
        return 1.0
    shared = sum(box.outer.size.pixels for box in boxes) / features_of(asked.frame, cut)
    return shared * (1 + asked.warm_up / asked.visit)
