"""Memory and operations of SeedVR2 jobs, from plans alone."""

from __future__ import annotations

from functools import lru_cache

from engine.core.geometry import Size
from engine.models.contracts import StageWork
from engine.models.planning.candidates import vae_stage
from engine.models.planning.memory import (
    DTYPE_BYTES,
    SOURCE_BYTES,
    MemoryRequirement,
    PhaseMemory,
    Streamed,
    peak_use,
)
from engine.models.planning.transformers import COLOURS, EXACT, transformer_stage
from engine.models.seedvr2 import files, vae_memory
from engine.models.seedvr2.dit import cost as dit_cost
from engine.models.seedvr2.dit.config import FORMAT_BYTES, DitConfig, parameters
from engine.models.seedvr2.dit.cost import DitUse, WeightBytes
from engine.models.seedvr2.plan import STEP, SeedVr2Plan, latents_of
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.tiling import decoder_reach, encoder_reach
from engine.models.seedvr2.vae_memory import VAES, Asked
from engine.models.video_vae.vae_use import CallWork, SliceWork, VaeUse

_BUFFERS = 2  # on the device, for streamed blocks
_SMALL_BYTES = 64 * 2**10  # means, deviations, biases


@lru_cache(maxsize=4096)
def needs(plan: SeedVr2Plan) -> MemoryRequirement:
    """Memory of a job."""
    dit, vae = files.configs(plan)
    stored = _stored(dit, plan)
    weights, buffer, most_buffers = dit_cost.resident_parts(
        dit, stored, plan.blocks_on_device, plan.device
    )
    forward, kept = _transformer(dit, plan, is_narrow=stored.is_narrow)
    forward += min(_BUFFERS, most_buffers) * buffer
    found = _stages(vae, plan, (forward, kept))
    on_gpu = plan.device == "cuda"
    most = {name: peak_use(uses, on_gpu=on_gpu) for name, uses in found.items()}
    waiting = _at_most(plan, (plan.latents + _waiting_latents(plan)) * STEP)
    return MemoryRequirement(
        weights=_vae_weights(vae, plan) + weights,
        working={name: most[name].device for name in ("encode", "transformer", "decode")},
        finishing=most["finishing"].device,
        between=most["between"].device,
        hosts={name: use.host + plan.pin_bytes for name, use in most.items()},
        waiting=waiting,
        finished=_finished_frames(plan),
        sources=waiting * plan.size.pixels * SOURCE_BYTES,
        measuring=VAES.measuring(vae, _vae_use(plan)),
    )


def stage_work(plan: SeedVr2Plan, frames: int) -> dict[str, StageWork]:
    """Work of a shot of n frames: both halves of the VAE, and the transformer with its weights."""
    encode, decode = vae_work(plan, frames)
    parked, share = parked_bytes(plan, frames)
    return {
        "encode": vae_stage(encode, plan.vae_dtype, plan.switches, parked["encode"], share),
        "transformer": _transformer_stage(plan, clips(plan, frames)),
        "decode": vae_stage(decode, plan.vae_dtype, plan.switches, parked["decode"], share),
    }


def _transformer_stage(plan: SeedVr2Plan, clips: float) -> StageWork:
    """Work of the transformer for n clips, with the weights that are copied meanwhile."""
    dit, grid = files.configs(plan)[0], _grid(plan)
    use = DitUse(dtype=plan.dtype, products=plan.products, switches=plan.switches.dit)
    flops = dit_cost.forward_flops(dit, grid, files.TEXT_TOKENS)
    passes = dit_cost.forward_passes(dit, grid, use)
    unpacked = 0
    if plan.products == "none":
        unpacked = dit_cost.unpacked_bytes(dit, _stored(dit, plan), plan.dtype)
    packed = dit_cost.packed_bytes(dit, grid, plan.dtype) if use.half_sums else 0.0
    return transformer_stage(
        plan,
        [(clips, flops, passes)],
        streamed_bytes(plan),
        half_sums=use.half_sums,
        packed_bytes=clips * packed,
        moved_bytes=clips * unpacked,
    )


def clips(plan: SeedVr2Plan, frames: int) -> float:
    """Clips of a video of one shot; a last one that is not full counts in part."""
    shared = plan.shared_latents
    return max(1.0, (latents_of(frames) - shared) / max(1, plan.latents - shared))


def frames_around(plan: SeedVr2Plan) -> tuple[int, int]:
    """Frames of a shot before some and after them that are computed for their sake.

    Before them at most, and not by all: the encoder begins first, then the transformer and the
    decoder. After them on average: a clip ends anywhere, and nothing of it is decoded.
    """
    if plan.join != "latents":
        return plan.shared + plan.clip // 2, plan.clip // 2
    _, vae = files.configs(plan)
    half = STEP * plan.clip // 2
    return STEP * (encoder_reach(vae) + decoder_reach(vae)) + half, half


def parked_bytes(plan: SeedVr2Plan, frames: int) -> tuple[dict[str, float], float]:
    """Bytes of carries that go to main memory and come back for n frames, by stage.

    And the share of them for which there is pinned memory.
    """
    _, vae = files.configs(plan)
    encode, decode = vae_memory.encoding(_encoding(vae, plan)), _decode(vae, plan)
    at_a_time = encode.parks + decode.parks
    passed = {
        "encode": 2.0 * encode.parks * _again(frames, plan.encode_span),
        "decode": 2.0 * decode.parks * _again(frames, _decoding(vae, plan).span),
    }
    pinned = plan.park_pin_bytes if plan.pins else 0
    return passed, min(1.0, pinned / at_a_time) if at_a_time else 0.0


def tiles(plan: SeedVr2Plan) -> dict[str, int]:
    """Tiles of a frame, by direction."""
    _, vae = files.configs(plan)
    decode = 1
    if plan.decode_tile is not None:
        decode = len(vae_memory.decode_boxes(_decoding(vae, plan), plan.decode_tile))
    return {"encode": len(vae_memory.encode_boxes(_encoding(vae, plan))), "decode": decode}


def streamed_bytes(plan: SeedVr2Plan) -> int:
    """Bytes of weights that are copied to the GPU for every clip, and may be pinned."""
    if plan.blocks_on_device is None or plan.device != "cuda":
        return 0
    dit, _ = files.configs(plan)
    return dit_cost.streamed_bytes(dit, _stored(dit, plan), plan.blocks_on_device)


def _stages(
    vae: VaeConfig, plan: SeedVr2Plan, transformer: tuple[int, int]
) -> dict[str, tuple[PhaseMemory, ...]]:
    """Memory of each stage without weights: its own, and what the others keep."""
    encode, decode = vae_memory.encoding(_encoding(vae, plan)), _decode(vae, plan)
    frame, picture = plan.padded.pixels * COLOURS * EXACT, plan.size.pixels * COLOURS * EXACT
    step, coming = plan.slice_frames, 3 * plan.encode_span  # latents of a span, joined, restored
    latent = _latent_bytes(vae, plan)
    forward, kept = transformer
    joining = PhaseMemory(3 * plan.latents * latent + kept + _SMALL_BYTES, coming * latent)
    held = joining + PhaseMemory(_held_frames(plan) * frame)
    # the last frames wait for the shot's end, clips of frames as a whole
    after = joining if plan.is_one_span and plan.join == "latents" else held
    placing = PhaseMemory(
        step * (frame + picture) * (2 if plan.input_noise else 1) + encode.buffers
    )
    later = PhaseMemory(0) if plan.is_one_span else decode.waits
    waiting = encode.waits + later
    sampling = plan.latents * latent * (8 if plan.latent_noise else 6)
    decoded = after + PhaseMemory(_decoded_frames(plan) * frame) + encode.waits
    finishing = decoded + decode.between + PhaseMemory(decode.buffers, decode.canvas)
    between = held + encode.between + later
    colours, later_colours = (PhaseMemory(_finishing(plan, corrects=one)) for one in (True, False))
    return {
        "encode": (
            held + encode.begins + PhaseMemory(frame),
            *(held + later + use for use in encode.steady),
            between + placing,
        ),
        "transformer": (after + waiting + PhaseMemory(forward - kept + sampling),),
        "decode": (
            *(decoded + use for use in (decode.begins, *decode.steady)),
            finishing + colours,
        ),
        "finishing": (finishing + later_colours,),
        "between": (between + PhaseMemory(encode.buffers),),
    }


def vae_item(plan: SeedVr2Plan) -> int:
    """Bytes of a number of the VAE."""
    return DTYPE_BYTES[plan.vae_dtype]


def _held_frames(plan: SeedVr2Plan) -> int:
    """Padded frames that wait to be encoded; clips that are joined as frames wait as a whole."""
    step = plan.slice_frames
    return step if plan.join == "latents" else step + 2 * plan.clip


def _decoded_frames(plan: SeedVr2Plan) -> int:
    """Padded frames of the decoder in addition to those that it makes."""
    if plan.join != "latents":
        return 2 * plan.clip
    return plan.slice_frames if vae_item(plan) < EXACT and plan.decode_tile is None else 0


def _finished_frames(plan: SeedVr2Plan) -> int:
    """Frames that are finished at a time."""
    if plan.join != "latents":
        return plan.clip - plan.shared
    return _at_most(plan, STEP * (plan.clip - plan.shared if plan.is_pooled else 1))


def _at_most(plan: SeedVr2Plan, frames: int) -> int:
    """At most n frames: all of the video if it has fewer."""
    return min(frames, plan.film or frames)


def _finishing(plan: SeedVr2Plan, *, corrects: bool) -> int:
    """Bytes of finished frames, padded, and of their results."""
    item, frames = DTYPE_BYTES[plan.vae_dtype], _finished_frames(plan)
    padded = COLOURS * (EXACT + (item if item < EXACT else 0)) * (2 if plan.is_pooled else 1)
    return frames * padded * plan.padded.pixels + plan.colour_bytes(frames, corrects=corrects)


def _latent_bytes(vae: VaeConfig, plan: SeedVr2Plan) -> int:
    """Bytes of one latent."""
    return plan.padded.pixels // vae.spatial_factor**2 * vae.latent_channels * EXACT


def _encoding(vae: VaeConfig, plan: SeedVr2Plan) -> Asked:
    return Asked(
        config=vae,
        frame=plan.padded,
        device=plan.device,
        dtype=plan.vae_dtype,
        switches=plan.switches.vae,
        tile=plan.encode_tile,
        warm_up=plan.warm_up if plan.encode_tile is not None else 0,
        span=plan.encode_span,
        film=plan.film,
        parks=plan.parks,
        at_once=plan.encode_at_once,
    )


def _decoding(vae: VaeConfig, plan: SeedVr2Plan) -> Asked:
    tiled = plan.decode_tile is not None
    return Asked(
        config=vae,
        frame=plan.padded,
        device=plan.device,
        dtype=plan.vae_dtype,
        switches=plan.switches.vae,
        tile=plan.decode_tile,
        warm_up=plan.warm_up if tiled else 0,
        span=plan.decode_span if tiled else plan.encode_span,
        is_whole=tiled and plan.decodes_whole_tiles,
        film=plan.film,
        parks=plan.parks,
        at_once=plan.decode_at_once,
    )


def _decode(vae: VaeConfig, plan: SeedVr2Plan) -> Streamed:
    return vae_memory.decoding(_decoding(vae, plan))


def _waiting_latents(plan: SeedVr2Plan) -> int:
    """Latents whose frames wait on their way to the transformer, and after it for the decoder."""
    return plan.encode_span + (plan.decode_span if plan.decode_tile is not None else 0)


def _vae_weights(vae: VaeConfig, plan: SeedVr2Plan) -> int:
    return VAES.weights(vae, _vae_use(plan, is_image=plan.film == 1 and plan.device == "cpu"))


def _vae_use(plan: SeedVr2Plan, *, is_image: bool = False) -> VaeUse:
    return VaeUse(
        dtype=plan.vae_dtype,
        device="cuda" if plan.device == "cuda" else "cpu",
        switches=plan.switches.vae,
        is_image=is_image,
    )


def _transformer(dit: DitConfig, plan: SeedVr2Plan, *, is_narrow: bool) -> tuple[int, int]:
    """Bytes of a forward without weights, and of what stays after it."""
    asked = (dit, _grid(plan), files.TEXT_TOKENS, plan.dtype, plan.device)
    forward = dit_cost.forward_bytes(*asked, widened=plan.products == "none" and is_narrow)
    return forward, dit_cost.kept_bytes(*asked)


def _stored(dit: DitConfig, plan: SeedVr2Plan) -> WeightBytes:
    """Bytes per weight on the device: packed formats stay packed, others take the type."""
    if plan.products != "none":
        return dit_cost.weight_bytes(dit, FORMAT_BYTES[plan.products], plan.dtype)
    if plan.dit.is_here:
        return files.weight_bytes(plan.dit, plan.dtype)
    each = plan.dit.bytes / parameters(dit) if plan.dit.bytes else 2.0
    return dit_cost.weight_bytes(dit, each if each < 1.6 else DTYPE_BYTES[plan.dtype], plan.dtype)


def vae_work(plan: SeedVr2Plan, frames: int) -> tuple[SliceWork, SliceWork]:
    """Work of encoding and decoding a shot of n frames; frames computed twice count twice."""
    _, vae = files.configs(plan)
    whole = STEP * (latents_of(frames) - 1) + 1
    calls = ("encode_slice", "decode_low", "decode_high")
    of_encode, of_low, of_high = (
        VAES.work(vae, call, _vae_use(plan), plan.padded) for call in calls
    )

    def in_tiles(one: CallWork, boxes: list[Size], span: int, first: int) -> SliceWork:
        """Work of a part in which the first latent of a clip takes as long as n frames."""
        begins = _again(frames, span) if plan.warm_up else 0
        early = STEP * (plan.warm_up - 1) + first
        taken = one.total(whole + early * begins, STEP, 1 + begins)
        return taken.in_tiles(sum(size.pixels for size in boxes) / plan.padded.pixels, len(boxes))

    encode, low, high = (one.total(whole, STEP) for one in (of_encode, of_low, of_high))
    if plan.encode_tile is not None:
        boxes = vae_memory.encode_boxes(_encoding(vae, plan))
        encode = in_tiles(of_encode, boxes, plan.encode_span, 1)
    if plan.decode_tile is not None:
        boxes = vae_memory.decode_boxes(_decoding(vae, plan), plan.decode_tile)
        first = 1 if plan.decodes_whole_tiles else STEP - 1  # two features, then frames of both
        high = in_tiles(of_high, boxes, plan.decode_span, first)
        if plan.decodes_whole_tiles:
            low = in_tiles(of_low, boxes, plan.decode_span, STEP)
    return encode, low + high


def _again(frames: int, span: int) -> int:
    """Number of times a video of one shot continues with another span."""
    return -(-latents_of(frames) // span) - 1


def _grid(plan: SeedVr2Plan) -> tuple[int, int, int]:
    return plan.latents, plan.padded.height // 8, plan.padded.width // 8
