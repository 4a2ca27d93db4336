"""What SeedVR2 jobs need and how much they have to compute; from numbers alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from engine.cost import Cost
from engine.geometry import Size
from engine.models.cost_ledger import ITEM
from engine.models.seedvr2 import cost, dit_cost, files, flops
from engine.models.seedvr2.config import VaeConfig
from engine.models.seedvr2.dit_config import DitConfig
from engine.models.seedvr2.split_grid import split_tiles, whole_tiles
from engine.optimisations import VaeSwitches
from engine.plan import DiffusionPlan, ModelPlan
from engine.tiling.grid import tile_grid

STEP = 4  # frames of a latent
BLEND_PX = 32  # of the ramp between decoded tiles
ENCODE_OVERLAP_PX = 64
_SLICES = 8  # that a tile is encoded for at a time
_STEADY = 9  # frames: from the third slice on memory does not grow


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Bytes of a SeedVR2 job.

    Attributes:
        weights: On the device, for as long as the job runs.
        encode: Beside them, on the device, while the encoder works.
        transformer: The same of the transformer.
        decode: The same of the decoder.
        host: In main memory, device or not: carries that wait, canvases, frames on their way.
    """

    weights: int
    encode: int
    transformer: int
    decode: int
    host: int

    @property
    def device(self) -> int:
        """Most bytes on the device at once."""
        return max(self.stages.values())

    @property
    def stages(self) -> dict[str, int]:
        """Bytes on the device while each stage works, weights included."""
        return {
            "encode": self.weights + self.encode,
            "transformer": self.weights + self.transformer,
            "decode": self.weights + self.decode,
        }


def needs(model: ModelPlan) -> Needs:
    """What a job takes; from numbers alone."""
    plan = model.diffusion
    if plan is None:
        raise ValueError(f"{model.model} is no diffusion model")
    dit, vae = files.configs(model.model, plan)
    encode, encode_host = _encode(vae, plan, model)
    decode, decode_host = _decode(vae, plan, model)
    frames_under_way = 3 * STEP * plan.padded.pixels * 12
    sources = latents_of(plan) * STEP * plan.size.pixels * 2
    return Needs(
        weights=_vae_weights(vae, plan) + _dit_weights(dit, plan, model),
        encode=encode + frames_under_way,
        transformer=_forward(dit, plan, model),
        decode=decode + frames_under_way,
        host=encode_host + decode_host + sources + plan.pin_bytes,
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
    encode, decode = _vae_work(vae, plan)
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
    return len(_boxes(vae, plan, plan.decode_tile))


def streamed_bytes(model: ModelPlan) -> int:
    """Of weights that come to the card again for every clip; what may be pinned."""
    plan = model.diffusion
    if plan is None or plan.blocks_on_device is None or model.device != "cuda":
        return 0
    dit, _ = files.configs(model.model, plan)
    stored = _bytes_per_weight(dit, plan, model)
    return dit_cost.streamed_bytes(dit, stored, plan.blocks_on_device, dtype=model.dtype)


def _encode(vae: VaeConfig, plan: DiffusionPlan, model: ModelPlan) -> tuple[int, int]:
    """Bytes on the device and on the host."""
    work = _work(plan, model, plan.encode_tile or plan.padded)
    found = _encode_cost(vae, work)
    device = found.activations + found.workspace + found.carry
    if plan.encode_tile is None:
        return device, 0
    boxes = tile_grid(plan.padded, plan.encode_tile, ENCODE_OVERLAP_PX)
    waiting = STEP * (_SLICES + plan.warm_up) * plan.padded.pixels * 3 * work.item
    return device, waiting + (0 if plan.warm_up else found.carry * len(boxes))


def _decode(vae: VaeConfig, plan: DiffusionPlan, model: ModelPlan) -> tuple[int, int]:
    whole = _work(plan, model, plan.padded)
    if plan.decode_tile is None:
        found = _decode_cost(vae, whole)
        return found.activations + found.workspace + found.carry, 0
    boxes = _boxes(vae, plan, plan.decode_tile)
    if plan.decodes_whole_tiles:
        return _decode_whole(vae, plan, replace(whole, size=boxes[0]), len(boxes))
    low = _low_cost(vae, whole)
    high = _high_cost(vae, replace(whole, size=boxes[0]))
    device = low.carry + max(
        low.activations + low.workspace, high.activations + high.workspace + high.carry
    )
    latents = latents_of(plan)
    width = vae.block_out_channels[-2]
    features = 2 * (latents + plan.warm_up) * (plan.padded.pixels // 16) * width * whole.item
    canvas = STEP * latents * plan.padded.pixels * 6
    return device, canvas + features + (0 if plan.warm_up else high.carry * len(boxes))


def _decode_whole(
    vae: VaeConfig, plan: DiffusionPlan, tile: cost.Work, tiles: int
) -> tuple[int, int]:
    """The same where tiles go through all of the decoder."""
    found = _decode_cost(vae, tile)
    latents = latents_of(plan)
    waiting = (latents + plan.warm_up) * (plan.padded.pixels // 64) * vae.latent_channels * 4
    canvas = STEP * latents * plan.padded.pixels * 6
    host = canvas + waiting + (0 if plan.warm_up else found.carry * tiles)
    return found.activations + found.workspace + found.carry, host


_encode_cost = lru_cache(maxsize=512)(cost.encode_cost)
_decode_cost = lru_cache(maxsize=512)(cost.decode_cost)
_high_cost = lru_cache(maxsize=512)(cost.decode_high_cost)


@lru_cache(maxsize=512)
def _low_cost(vae: VaeConfig, work: cost.Work) -> Cost:
    """With features that leave for main memory."""
    return cost.decode_low_cost(vae, work, park=True)


def _vae_weights(vae: VaeConfig, plan: DiffusionPlan) -> int:
    return cost.weights_bytes(vae, plan.vae_dtype, VaeSwitches())


def _dit_weights(dit: DitConfig, plan: DiffusionPlan, model: ModelPlan) -> int:
    stored = _bytes_per_weight(dit, plan, model)
    return dit_cost.resident_bytes(
        dit, stored, plan.blocks_on_device, dtype=model.dtype, device=model.device
    )


def _forward(dit: DitConfig, plan: DiffusionPlan, model: ModelPlan) -> int:
    stored = _bytes_per_weight(dit, plan, model)
    return dit_cost.forward_bytes(
        dit,
        _grid(plan),
        files.TEXT_TOKENS,
        model.dtype,
        model.device,
        widened=plan.products == "none" and stored < ITEM[model.dtype],
    )


def _bytes_per_weight(dit: DitConfig, plan: DiffusionPlan, model: ModelPlan) -> float:
    """As kept on the device: packed formats stay packed, others take the transformer's type."""
    if plan.products != "none":
        return dit_cost.FORMAT_BYTES[plan.products]
    numbers = dit_cost.parameters(dit)
    stored = plan.dit.bytes / numbers if plan.dit.bytes else 2.0
    wide = ITEM[model.dtype]
    return stored if stored < 1.6 else wide


def _vae_work(vae: VaeConfig, plan: DiffusionPlan) -> tuple[float, float]:
    """Operations of encoding and decoding a frame, overlaps and warming up counted."""
    encode, decode = _vae_flops(vae, plan.padded)
    pixels = plan.padded.pixels
    if plan.encode_tile is not None:
        boxes = tile_grid(plan.padded, plan.encode_tile, ENCODE_OVERLAP_PX)
        encode *= sum(box.size.pixels for box in boxes) / pixels * (1 + plan.warm_up / _SLICES)
    if plan.decode_tile is not None:
        sizes = _boxes(vae, plan, plan.decode_tile)
        again = 1 + plan.warm_up / latents_of(plan)
        decode *= sum(size.pixels for size in sizes) / pixels * again
    return encode, decode


@lru_cache(maxsize=256)
def _vae_flops(vae: VaeConfig, size: Size) -> tuple[float, float]:
    """Of encoding and of decoding one frame of a long shot."""
    clip = flops.Work(frames=17, size=size, switches=VaeSwitches(), slice_frames=4)
    encode, decode = flops.encode_flops(vae, clip), flops.decode_flops(vae, clip)
    return encode.total / 17, decode.total / 17


def _work(plan: DiffusionPlan, model: ModelPlan, size: Size) -> cost.Work:
    return cost.Work(
        frames=_STEADY + STEP,
        size=size,
        switches=VaeSwitches(),
        slice_frames=STEP,
        dtype=plan.vae_dtype,
        device="cuda" if model.device == "cuda" else "cpu",
    )


def _boxes(vae: VaeConfig, plan: DiffusionPlan, tile: Size) -> list[Size]:
    factor = vae.spatial_factor
    latent = Size(plan.padded.width // factor, plan.padded.height // factor)
    if plan.decodes_whole_tiles:
        cut = whole_tiles(vae, latent, tile)
    else:
        cut = split_tiles(vae, latent, tile, BLEND_PX)
    return [box.size.scaled(cut.factor) for box in cut.boxes]


def _grid(plan: DiffusionPlan) -> tuple[int, int, int]:
    return latents_of(plan), plan.padded.height // 8, plan.padded.width // 8


def latents_of(plan: DiffusionPlan) -> int:
    """Latents of a clip."""
    return plan.clip if plan.join == "latents" else 1 + -(-(plan.clip - 1) // STEP)
