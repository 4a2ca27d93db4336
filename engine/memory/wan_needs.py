"""What jobs with a Wan VAE need and how much they have to compute; from numbers alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from engine.cost import Cost
from engine.geometry import Size
from engine.models.cost_ledger import ITEM
from engine.models.wan import cost, files, flops, split
from engine.models.wan.config import WanConfig
from engine.models.work import Work
from engine.optimisations import VaeSwitches
from engine.plan import LatentPlan, ModelPlan

STEP = 4  # frames of a latent
_STEADY = 13  # frames: from the third slice on memory does not grow
_LEAVING_BYTES = 48  # of pictures that are being finished in float32, for each of their px
_SOURCE_BYTES = 2  # of the source's frames that wait for their result, for each of their px
_COLOURS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """How a VAE works on shots.

    Attributes:
        config: Of the VAE.
        frame: Size of the frames that are encoded, or would be.
        device: "cpu" or "cuda".
        dtype: Number format.
        tile: Most px computed at a time, of a frame (encoder) or a result (decoder); None for
            whole frames.
        slice_frames: At a time.
        warm_up: Latents that tiles begin early; 0 where they go on with a carry.
    """

    config: WanConfig
    frame: Size
    device: str
    dtype: str
    tile: Size | None = None
    slice_frames: int = STEP
    warm_up: int = 0

    @property
    def visit(self) -> int:
        """Latents that a tile is visited for."""
        return split.LATENTS_PER_VISIT * max(1, self.slice_frames // STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes of encoding or decoding, weights apart.

    Attributes:
        carry: On the device for as long as a shot goes on.
        rest: Beside it, on the device, while it works.
        host: In main memory, device or not: entries and results of tiles, carries that wait.
    """

    carry: int
    rest: int
    host: int = 0


_NOTHING = Need(carry=0, rest=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Bytes of a job with a Wan VAE."""

    weights: int
    encode: Need
    decode: Need
    leaving: int  # pictures that are being finished, on the device
    sources: int  # frames of the source that wait for their result, in main memory

    @property
    def device(self) -> int:
        """Most bytes on the device at once."""
        carries = self.encode.carry + self.decode.carry
        return self.weights + carries + max(self.encode.rest, self.decode.rest) + self.leaving

    @property
    def host(self) -> int:
        """Bytes of main memory, device or not."""
        return self.encode.host + self.decode.host + self.sources


def needs(model: ModelPlan) -> Needs:
    """What a job with Wan 2x takes; from numbers alone."""
    encode, decode = _passes(model)
    waiting = STEP * (encode.visit + decode.visit)
    return replace(
        decode_needs(decode),
        encode=encode_need(encode),
        sources=waiting * encode.frame.pixels * _SOURCE_BYTES,
    )


def encode_needs(asked: Pass) -> Needs:
    """Of a job that only encodes."""
    return _needs(asked, encode_need(asked), _NOTHING, asked.frame.pixels)


def decode_needs(asked: Pass) -> Needs:
    """Of a job that only decodes."""
    pixels = asked.frame.pixels * asked.config.upscale**2
    return _needs(asked, _NOTHING, decode_need(asked), pixels)


def latent_needs(plan: LatentPlan, size: Size) -> Needs:
    """Of decoding latents to pictures of a size."""
    return decode_needs(_latent_pass(plan, size))


def latent_work(plan: LatentPlan, size: Size, frames: int) -> float:
    """Floating-point operations of that."""
    return frames * decode_work(_latent_pass(plan, size))


def work(model: ModelPlan, frames: int) -> float:
    """Floating-point operations for so many frames."""
    encode, decode = _passes(model)
    return frames * (encode_work(encode) + decode_work(decode))


def tiles(model: ModelPlan) -> int:
    """Tiles of the decoder in a frame."""
    return len(_decode_tiles(_passes(model)[1]))


@lru_cache(maxsize=512)
def encode_need(asked: Pass) -> Need:
    """Of encoding."""
    config, boxes, whole = asked.config, _encode_tiles(asked), _work(asked, asked.frame)
    if len(boxes) == 1:
        return _whole(cost.encode_cost(config, whole))
    cut = split.encode_cut(config)
    low = cost.encode_low_cost(config, whole)
    high = cost.encode_high_cost(config, _work(asked, boxes[0].outer.scaled(cut.factor).size))
    frames = STEP * (asked.visit + asked.warm_up) * asked.frame.pixels * _COLOURS
    features = STEP // cut.time * asked.visit * _features(asked.frame, cut)
    waiting = (frames + features * cost.encoded_features(config)) * ITEM[asked.dtype]
    return _tiled(low, high, waiting + (0 if asked.warm_up else high.carry * len(boxes)))


@lru_cache(maxsize=512)
def decode_need(asked: Pass) -> Need:
    """Of decoding."""
    config, boxes, whole = asked.config, _decode_tiles(asked), _work(asked, asked.frame)
    if len(boxes) == 1:
        return _whole(cost.decode_cost(config, whole))
    cut = split.decode_cut(config)
    low = cost.decode_low_cost(config, whole)
    high = cost.decode_high_cost(config, _work(asked, boxes[0].outer.scaled(cut.factor).size))
    pixels = asked.frame.pixels * config.upscale**2
    frames = STEP * asked.visit * pixels * _COLOURS
    latents = asked.visit + asked.warm_up
    features = STEP // cut.time * latents * _features(asked.frame, cut)
    waiting = (frames + features * cost.decoded_features(config)) * ITEM[asked.dtype]
    return _tiled(low, high, waiting + (0 if asked.warm_up else high.carry * len(boxes)))


def encode_work(asked: Pass) -> float:
    """Floating-point operations for a frame of a long shot."""
    more = _repeated(asked, _encode_tiles(asked), split.encode_cut(asked.config))
    return more * _flops(asked.config, asked.frame)[0]


def decode_work(asked: Pass) -> float:
    """The same of decoding."""
    more = _repeated(asked, _decode_tiles(asked), split.decode_cut(asked.config))
    return more * _flops(asked.config, asked.frame)[1]


def _needs(asked: Pass, encode: Need, decode: Need, pixels: int) -> Needs:
    return Needs(
        weights=cost.weights_bytes(asked.config, asked.dtype, VaeSwitches()),
        encode=encode,
        decode=decode,
        leaving=_LEAVING_BYTES * (1 + asked.slice_frames) * pixels,
        sources=0,
    )


def padded_size(config: WanConfig, size: Size) -> Size:
    """Size of the frames that are encoded: the next multiple of what the VAE takes."""
    each = config.spatial_factor
    return Size(-(-size.width // each) * each, -(-size.height // each) * each)


def _latent_pass(plan: LatentPlan, size: Size) -> Pass:
    config = files.wan_config(plan.vae, plan.model)
    return Pass(
        config=config,
        frame=padded_size(config, size),
        device=plan.device,
        dtype=plan.dtype,
        tile=plan.decode_tile,
    )


def _passes(model: ModelPlan) -> tuple[Pass, Pass]:
    plan = model.wan
    if plan is None:
        raise ValueError(f"{model.model} is not Wan 2x")
    encode = Pass(
        config=files.wan_config(plan.vae, model.model),
        frame=plan.padded,
        device=model.device,
        dtype=model.dtype,
        tile=plan.encode_tile,
        slice_frames=plan.slice_frames,
        warm_up=plan.warm_up,
    )
    return encode, replace(encode, tile=plan.decode_tile)


def _whole(found: Cost) -> Need:
    return Need(carry=found.carry, rest=found.activations + found.workspace)


def _tiled(low: Cost, high: Cost, host: int) -> Need:
    whole, tile = low.activations + low.workspace, high.peak_bytes - high.weights
    return Need(carry=low.carry, rest=max(whole, tile), host=host)


def _features(frame: Size, cut: split.Cut) -> int:
    return frame.pixels // cut.factor**2


def _repeated(asked: Pass, boxes: list[split.TileBox], cut: split.Cut) -> float:
    """How often a frame is computed: tiles know more than they show, and may begin early."""
    if len(boxes) == 1:
        return 1.0
    shared = sum(box.outer.size.pixels for box in boxes) / _features(asked.frame, cut)
    return shared * (1 + asked.warm_up / asked.visit)


def _encode_tiles(asked: Pass) -> list[split.TileBox]:
    return split.encode_tiles(asked.config, asked.frame, asked.tile)


def _decode_tiles(asked: Pass) -> list[split.TileBox]:
    return split.decode_tiles(asked.config, asked.frame, asked.tile)


@lru_cache(maxsize=256)
def _flops(config: WanConfig, size: Size) -> tuple[float, float]:
    """Of encoding and of decoding one frame of a long shot."""
    frames = 17
    clip = Work(frames=frames, size=size, switches=VaeSwitches(), slice_frames=STEP)
    encode, decode = flops.encode_flops(config, clip), flops.decode_flops(config, clip)
    return encode.total / frames, decode.total / frames


def _work(asked: Pass, size: Size) -> cost.Work:
    return cost.Work(
        frames=_STEADY + asked.slice_frames,
        size=size,
        switches=VaeSwitches(),
        slice_frames=asked.slice_frames,
        dtype=asked.dtype,
        device="cuda" if asked.device == "cuda" else "cpu",
    )
