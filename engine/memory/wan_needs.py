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
_LEAVING_BYTES = 48  # of a picture that is being finished in float32, for each of its px
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
        parks: The carry of whole frames waits in main memory while tiles are visited.
    """

    config: WanConfig
    frame: Size
    device: str
    dtype: str
    tile: Size | None = None
    slice_frames: int = STEP
    warm_up: int = 0
    parks: bool = False

    @property
    def visit(self) -> int:
        """Latents that a tile is visited for."""
        return split.LATENTS_PER_VISIT * max(1, self.slice_frames // STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes of encoding or decoding, weights apart.

    Attributes:
        working: On the device, while it works.
        waiting: On the device, while the other one works: the carry, unless it is parked.
        parked: A carry that waits in main memory while tiles are visited.
        host: In main memory, device or not, while tiles are visited: what they take and give, and
            the carries of all.
        kept: Of that, what stays while the other one works.
    """

    working: int
    waiting: int = 0
    parked: int = 0
    host: int = 0
    kept: int = 0


_NOTHING = Need(working=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Bytes of a job with a Wan VAE."""

    weights: int
    encode: Need
    decode: Need
    leaving: int  # a picture that is being finished, on the device
    sources: int = 0  # frames of the source that wait for their result, in main memory

    @property
    def device(self) -> int:
        """Most bytes on the device at once."""
        return max(self.stages.values())

    @property
    def stages(self) -> dict[str, int]:
        """Bytes on the device while each stage works, weights included."""
        encode, decode = self.encode, self.decode
        back = 0 if encode.parked else decode.parked  # latents come one by one: it is needed soon
        always = self.weights + self.leaving
        return {
            "encode": always + encode.working + decode.waiting + back,
            "decode": always + decode.working + encode.waiting,
        }

    @property
    def host(self) -> int:
        """Bytes of main memory, device or not."""
        encode, decode = self.encode, self.decode
        visiting = max(encode.host + decode.kept, decode.host + encode.kept)
        return visiting + encode.parked + decode.parked + self.sources


@lru_cache(maxsize=1024)
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
    found = encode_need(asked)
    return Needs(weights=_weights(asked), encode=found, decode=_NOTHING, leaving=0)


def decode_needs(asked: Pass) -> Needs:
    """Of a job that only decodes."""
    leaving = _LEAVING_BYTES * asked.frame.pixels * asked.config.upscale**2
    found = decode_need(asked)
    return Needs(weights=_weights(asked), encode=_NOTHING, decode=found, leaving=leaving)


def latent_needs(plan: LatentPlan, size: Size) -> Needs:
    """Of decoding latents to pictures of a size."""
    return decode_needs(_latent_pass(plan, size))


def latent_work(plan: LatentPlan, size: Size, frames: int) -> float:
    """Floating-point operations of that."""
    return frames * decode_work(_latent_pass(plan, size))


def work(model: ModelPlan, frames: int) -> float:
    """Floating-point operations for so many frames."""
    return sum(stage_work(model, frames).values())


def stage_work(model: ModelPlan, frames: int) -> dict[str, float]:
    """The same, stage by stage."""
    encode, decode = _passes(model)
    return {"encode": frames * encode_work(encode), "decode": frames * decode_work(decode)}


def stage_bytes(model: ModelPlan) -> dict[str, int]:
    """Bytes on the device while each stage works, weights included."""
    return needs(model).stages


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
    high = cost.encode_high_cost(config, _work(asked, boxes[0].outer.scaled(cut.factor).size))
    frames = STEP * asked.frame.pixels * _COLOURS
    features = STEP // cut.time * _features(asked.frame, cut) * cost.encoded_features(config)
    share, carries = _share(asked, boxes, cut), high.carry * len(boxes)
    passing = _Passing(taken=frames, given=features, share=share, carries=carries)
    return _tiled(asked, cost.encode_low_cost(config, whole), high, passing)


@lru_cache(maxsize=512)
def decode_need(asked: Pass) -> Need:
    """Of decoding."""
    config, boxes, whole = asked.config, _decode_tiles(asked), _work(asked, asked.frame)
    if len(boxes) == 1:
        return _whole(cost.decode_cost(config, whole))
    cut = split.decode_cut(config)
    high = cost.decode_high_cost(config, _work(asked, boxes[0].outer.scaled(cut.factor).size))
    frames = STEP * asked.frame.pixels * config.upscale**2 * _COLOURS
    features = STEP // cut.time * _features(asked.frame, cut) * cost.decoded_features(config)
    share, carries = _share(asked, boxes, cut), high.carry * len(boxes)
    passing = _Passing(taken=features, given=frames, share=share, carries=carries)
    return _tiled(asked, cost.decode_low_cost(config, whole), high, passing)


def encode_work(asked: Pass) -> float:
    """Floating-point operations for a frame of a long shot."""
    more = _repeated(asked, _encode_tiles(asked), split.encode_cut(asked.config))
    return more * _flops(asked.config, asked.frame)[0]


def decode_work(asked: Pass) -> float:
    """The same of decoding."""
    more = _repeated(asked, _decode_tiles(asked), split.decode_cut(asked.config))
    return more * _flops(asked.config, asked.frame)[1]


def _weights(asked: Pass) -> int:
    return _all_weights(asked.config, asked.dtype)


@lru_cache(maxsize=64)
def _all_weights(config: WanConfig, dtype: str) -> int:
    return cost.weights_bytes(config, dtype, VaeSwitches())


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
        parks=plan.parks,
    )
    return encode, replace(encode, tile=plan.decode_tile)


def _whole(found: Cost) -> Need:
    return Need(working=found.peak_bytes - found.weights, waiting=found.carry)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passing:
    """What tiles take and give: numbers for each latent.

    Attributes:
        taken: Of whole frames.
        given: Of whole frames.
        share: Of a frame that is one tile.
        carries: Bytes of all tiles' carries.
    """

    taken: int
    given: int
    share: float
    carries: int


def _tiled(asked: Pass, low: Cost, high: Cost, passing: _Passing) -> Need:
    whole, tile = (part.peak_bytes - part.weights for part in (low, high))
    tile += round(2 * passing.taken * passing.share) * ITEM[asked.dtype]  # what goes in
    item, waiting = ITEM[asked.dtype], 0 if asked.parks else low.carry
    kept = asked.warm_up * passing.taken * item if asked.warm_up else passing.carries
    return Need(
        working=max(whole, waiting + tile),
        waiting=waiting,
        parked=low.carry - waiting,
        host=kept + (1 + asked.visit) * (passing.taken + passing.given) * item,
        kept=kept,
    )


def _share(asked: Pass, boxes: list[split.TileBox], cut: split.Cut) -> float:
    return boxes[0].outer.size.pixels / _features(asked.frame, cut)


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
