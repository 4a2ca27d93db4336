"""What SeedVR2 jobs need and how much they have to compute; from numbers alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from engine.core.geometry import Size
from engine.models.planning.memory_phases import Moment, Streamed, most_of
from engine.models.seedvr2 import files
from engine.models.seedvr2.dit import cost as dit_cost
from engine.models.seedvr2.dit.config import DitConfig
from engine.models.seedvr2.planning import vae_memory
from engine.models.seedvr2.planning.vae_memory import (
    BLEND_PX,
    ENCODE_OVERLAP_PX,
    STEP,
    Asked,
)
from engine.models.seedvr2.vae import cost, flops
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.video_vae.memory_ledger import ITEM
from engine.protocol.plan import DiffusionPlan, ModelPlan
from engine.settings.optimisations import VaeSwitches

__all__ = ["BLEND_PX", "ENCODE_OVERLAP_PX", "STEP", "Needs", "needs"]

_EXACT = 4  # bytes of a number of latents and of finished frames
_COLOURS = 3
_POOLED = ("lab", "wavelet_adaptive", "hsv")  # correct the frames of a block together
_PICTURES = {"none": 4, "wavelet": 7, "adain": 7, "lab": 12, "hsv": 12, "wavelet_adaptive": 12}
_SMOOTHING_BYTES = 32  # of one frame's colours that are smoothed, for each px
_SMALL_BYTES = 64 * 2**10  # means, deviations, biases
_SOURCE_BYTES = 2  # of the source's frames that wait for their result, for each of their px


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Bytes of a SeedVR2 job.

    Attributes:
        weights: On the device, for as long as the job runs.
        encode: Beside them, on the device, while the encoder works.
        transformer: The same of the transformer.
        decode: The same of the decoder, and while its frames are finished.
        finishing: The same when frames are finished: what the job holds then, and the pictures.
        hosts: In main memory while each stage works, device or not: carries that wait, canvases,
            frames on their way.
        waiting: Frames of the source that wait for their result.
        finished: Frames that are finished at a time.
        sources: Bytes of those that wait, in main memory too.
    """

    weights: int
    encode: int
    transformer: int
    decode: int
    finishing: int
    hosts: dict[str, int]
    waiting: int
    finished: int
    sources: int

    @property
    def device(self) -> int:
        """Most bytes on the device at once."""
        return max(self.stages.values())

    @property
    def host(self) -> int:
        """Most bytes of main memory at once, device or not."""
        return max(self.hosts.values()) + self.sources

    @property
    def stages(self) -> dict[str, int]:
        """Bytes on the device while each stage works, weights included."""
        return {
            "encode": self.weights + self.encode,
            "transformer": self.weights + self.transformer,
            "decode": self.weights + self.decode,
        }


@lru_cache(maxsize=4096)
def needs(model: ModelPlan) -> Needs:
    """What a job takes; from numbers alone."""
    plan = model.diffusion
    if plan is None:
        raise ValueError(f"{model.model} is no diffusion model")
    dit, vae = files.configs(model.model, plan)
    found = _stages(vae, plan, model, _transformer(dit, plan, model))
    on_card = model.device == "cuda"
    most = {name: most_of(moments, is_card=on_card) for name, moments in found.items()}
    waiting = (latents_of(plan) + _undecoded(plan)) * STEP
    return Needs(
        weights=_vae_weights(vae, plan, model) + _dit_weights(dit, plan, model),
        encode=most["encode"].device,
        transformer=most["transformer"].device,
        decode=most["decode"].device,
        finishing=most["finishing"].device,
        hosts={name: moment.host + plan.pin_bytes for name, moment in most.items()},
        waiting=waiting,
        finished=_finished_frames(plan),
        sources=waiting * plan.size.pixels * _SOURCE_BYTES,
    )


def work(model: ModelPlan, frames: int) -> float:
    """Floating-point operations for so many frames."""
    return sum(stage_work(model, frames).values())


def stage_work(model: ModelPlan, frames: int) -> dict[str, float]:
    """The same, stage by stage."""
    plan = model.diffusion
    if plan is None:
        raise ValueError(f"{model.model} is no diffusion model")
    dit, vae = files.configs(model.model, plan)
    latents = latents_of(plan)
    done = latents - (plan.shared if plan.join == "latents" else -(-plan.shared // STEP))
    clip = dit_cost.forward_flops(dit, _grid(plan), files.TEXT_TOKENS).total
    encode, decode = _vae_work(vae, plan, model)
    return {
        "encode": frames * encode,
        "transformer": frames * clip / max(1, done * STEP),
        "decode": frames * decode,
    }


def stage_bytes(model: ModelPlan) -> dict[str, int]:
    """Bytes on the device while each stage works, weights included."""
    return needs(model).stages


def tiles(model: ModelPlan) -> int:
    """Tiles of the decoder in a frame."""
    plan = model.diffusion
    if plan is None or plan.decode_tile is None:
        return 1
    _, vae = files.configs(model.model, plan)
    return len(vae_memory.decode_boxes(_decoding(vae, plan, model), plan.decode_tile))


def streamed_bytes(model: ModelPlan) -> int:
    """Of weights that come to the card again for every clip; what may be pinned."""
    plan = model.diffusion
    if plan is None or plan.blocks_on_device is None or model.device != "cuda":
        return 0
    dit, _ = files.configs(model.model, plan)
    stored = _bytes_per_weight(dit, plan, model)
    return dit_cost.streamed_bytes(dit, stored, plan.blocks_on_device, dtype=model.dtype)


def _stages(
    vae: VaeConfig, plan: DiffusionPlan, model: ModelPlan, transformer: tuple[int, int]
) -> dict[str, tuple[Moment, ...]]:
    """Moments of each stage, weights apart: what it computes beside what the others leave."""
    encode, decode = vae_memory.encoding(_encoding(vae, plan, model)), _decode(vae, plan, model)
    frame, picture = plan.padded.pixels * _COLOURS * _EXACT, plan.size.pixels * _COLOURS * _EXACT
    coming = 2 * vae_memory.SLICES if plan.encode_tile is not None else 0  # of two visits
    latents = (3 * latents_of(plan) + coming) * _latent_bytes(vae, plan)
    forward, kept = transformer
    held = Moment(_held_frames(plan) * frame + latents + kept + _SMALL_BYTES)
    placing = Moment(STEP * (frame + picture) * (2 if plan.input_noise else 1) + encode.buffers)
    waiting = encode.waits + decode.waits
    sampling = latents_of(plan) * _latent_bytes(vae, plan) * (8 if plan.latent_noise else 6)
    decoded = held + Moment(_decoded_frames(plan) * frame) + encode.waits
    finishing = decoded + decode.between + Moment(decode.buffers, decode.canvas)
    colours = Moment(_finishing(plan, _PICTURES.get(plan.colour, 5)))
    return {
        "encode": (
            held + encode.begins + Moment(frame),
            *(held + decode.waits + moment for moment in encode.goes_on),
            held + encode.between + decode.waits + placing,
        ),
        "transformer": (held + waiting + Moment(forward - kept + sampling),),
        "decode": (
            *(decoded + moment for moment in (decode.begins, *decode.goes_on)),
            finishing + colours,
        ),
        "finishing": (finishing + Moment(_finishing(plan, 1)),),
    }


def vae_item(plan: DiffusionPlan) -> int:
    """Bytes of a number of the VAE."""
    return ITEM[plan.vae_dtype]


def _held_frames(plan: DiffusionPlan) -> int:
    """Padded frames that wait to be encoded; clips that are joined as frames wait as a whole."""
    return STEP if plan.join == "latents" else STEP + 2 * plan.clip


def _decoded_frames(plan: DiffusionPlan) -> int:
    """Padded frames of the decoder beside those that it makes."""
    if plan.join != "latents":
        return 2 * plan.clip
    return STEP if vae_item(plan) < _EXACT and plan.decode_tile is None else 0


def _finished_frames(plan: DiffusionPlan) -> int:
    """Frames that are finished at a time."""
    if plan.join != "latents":
        return plan.clip - plan.shared
    return STEP * (plan.clip - plan.shared if plan.colour in _POOLED else 1)


def _finishing(plan: DiffusionPlan, pictures: int) -> int:
    """Bytes of frames that are finished, and of so many times as many pictures."""
    item, is_pooled = ITEM[plan.vae_dtype], plan.colour in _POOLED
    padded = _COLOURS * (_EXACT + (item if item < _EXACT else 0)) * (2 if is_pooled else 1)
    each = padded * plan.padded.pixels + pictures * _COLOURS * _EXACT * plan.size.pixels
    return _finished_frames(plan) * each + _SMOOTHING_BYTES * plan.size.pixels


def _latent_bytes(vae: VaeConfig, plan: DiffusionPlan) -> int:
    """Of one latent."""
    return plan.padded.pixels // vae.spatial_factor**2 * vae.latent_channels * _EXACT


def _encoding(vae: VaeConfig, plan: DiffusionPlan, model: ModelPlan) -> Asked:
    return Asked(
        config=vae,
        frame=plan.padded,
        device=model.device,
        dtype=plan.vae_dtype,
        switches=model.switches.vae,
        tile=plan.encode_tile,
        warm_up=plan.warm_up if plan.encode_tile is not None else 0,
    )


def _decoding(vae: VaeConfig, plan: DiffusionPlan, model: ModelPlan) -> Asked:
    shared = plan.shared if plan.join == "latents" else 0
    tiled = plan.decode_tile is not None
    return replace(
        _encoding(vae, plan, model),
        tile=plan.decode_tile,
        warm_up=plan.warm_up if tiled else 0,
        latents=latents_of(plan) - shared if tiled else 0,
        is_whole=tiled and plan.decodes_whole_tiles,
    )


def _decode(vae: VaeConfig, plan: DiffusionPlan, model: ModelPlan) -> Streamed:
    return vae_memory.decoding(_decoding(vae, plan, model))


def _undecoded(plan: DiffusionPlan) -> int:
    """Latents whose frames wait on their way to the transformer."""
    return vae_memory.SLICES if plan.encode_tile is not None else 1


def _vae_weights(vae: VaeConfig, plan: DiffusionPlan, model: ModelPlan) -> int:
    return _all_vae_weights(vae, plan.vae_dtype, model.switches.vae)


_all_vae_weights = lru_cache(maxsize=64)(cost.weights_bytes)


def _dit_weights(dit: DitConfig, plan: DiffusionPlan, model: ModelPlan) -> int:
    stored = _bytes_per_weight(dit, plan, model)
    return dit_cost.resident_bytes(
        dit, stored, plan.blocks_on_device, dtype=model.dtype, device=model.device
    )


def _transformer(dit: DitConfig, plan: DiffusionPlan, model: ModelPlan) -> tuple[int, int]:
    """Bytes of a forward, and of what stays behind it."""
    stored = _bytes_per_weight(dit, plan, model)
    asked = (dit, _grid(plan), files.TEXT_TOKENS, model.dtype, model.device)
    widened = plan.products == "none" and stored < ITEM[model.dtype]
    return dit_cost.forward_bytes(*asked, widened=widened), dit_cost.kept_bytes(*asked)


def _bytes_per_weight(dit: DitConfig, plan: DiffusionPlan, model: ModelPlan) -> float:
    """As kept on the device: packed formats stay packed, others take the transformer's type."""
    if plan.products != "none":
        return dit_cost.FORMAT_BYTES[plan.products]
    numbers = dit_cost.parameters(dit)
    stored = plan.dit.bytes / numbers if plan.dit.bytes else 2.0
    wide = ITEM[model.dtype]
    return stored if stored < 1.6 else wide


def _vae_work(vae: VaeConfig, plan: DiffusionPlan, model: ModelPlan) -> tuple[float, float]:
    """Operations of encoding and decoding a frame, overlaps and warming up counted."""
    encode, decode = _vae_flops(vae, plan.padded, model.switches.vae)
    pixels = plan.padded.pixels
    if plan.encode_tile is not None:
        boxes = vae_memory.encode_boxes(_encoding(vae, plan, model))
        again = 1 + plan.warm_up / vae_memory.SLICES
        encode *= sum(size.pixels for size in boxes) / pixels * again
    if plan.decode_tile is not None:
        boxes = vae_memory.decode_boxes(_decoding(vae, plan, model), plan.decode_tile)
        again = 1 + plan.warm_up / latents_of(plan)
        decode *= sum(size.pixels for size in boxes) / pixels * again
    return encode, decode


@lru_cache(maxsize=256)
def _vae_flops(vae: VaeConfig, size: Size, switches: VaeSwitches) -> tuple[float, float]:
    """Of encoding and of decoding one frame of a long shot."""
    clip = flops.Work(frames=17, size=size, switches=switches, slice_frames=4)
    encode, decode = flops.encode_flops(vae, clip), flops.decode_flops(vae, clip)
    return encode.total / 17, decode.total / 17


def _grid(plan: DiffusionPlan) -> tuple[int, int, int]:
    return latents_of(plan), plan.padded.height // 8, plan.padded.width // 8


def latents_of(plan: DiffusionPlan) -> int:
    """Latents of a clip."""
    return plan.clip if plan.join == "latents" else 1 + -(-(plan.clip - 1) // STEP)
