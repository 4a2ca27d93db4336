"""Memory of the Wan VAEs while shots stream through them.

Their calls are measured; what `streams` and `tiled` of that family keep around them is counted
here, from sizes alone. The tests compare both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from engine.core.geometry import Size
from engine.models.memory_cost import DTYPE_BYTES
from engine.models.planning.memory import PhaseMemory, Streamed
from engine.models.video_vae.measured_memory import MeasuredVae
from engine.models.video_vae.vae_use import VaePeak, VaeUse
from engine.models.wan.vae import split
from engine.models.wan.vae.config import WanConfig
from engine.models.wan.vae.receptive_field import decode_warm_up, encode_warm_up
from engine.settings.optimisations import VaeSwitches

VAES = MeasuredVae("engine.models.wan.vae.load", split.pieces)
STEP = 4  # frames of a latent
_COLOURS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Use of a VAE for shots.

    Attributes:
        config: Configuration of the VAE.
        frame: Size of the frames that are encoded, or would be.
        device: "cpu" or "cuda".
        dtype: Type of the values.
        tile: Most px computed at a time, of a frame (encoder) or a result (decoder); None for
            whole frames.
        slice_frames: At a time.
        warm_up: Latents that tiles begin early; 0 where they go on with a carry.
        parks: The carry of whole frames waits in main memory while tiles are visited.
        switches: Optimisations.
        drips: Latents come to the decoder one by one, as they do where the encoder has no tiles.
        at_once: Tiles that are in work at a time. Memory of one serves no other meanwhile, so each
            counts with its most.
    """

    config: WanConfig
    frame: Size
    device: str
    dtype: str
    tile: Size | None = None
    slice_frames: int = STEP
    warm_up: int = 0
    parks: bool = False
    switches: VaeSwitches = field(default_factory=VaeSwitches)
    drips: bool = False
    at_once: int = 1

    @property
    def visit(self) -> int:
        """Latents that a tile is visited for, at most."""
        return split.LATENTS_PER_VISIT + max(1, self.slice_frames // STEP) - 1

    @property
    def item(self) -> int:
        """Bytes of a number."""
        return DTYPE_BYTES[self.dtype]

    @property
    def on_gpu(self) -> bool:
        """Whether the device has memory of its own."""
        return self.device == "cuda"

    @property
    def use(self) -> VaeUse:
        """Use of the VAE, for the table."""
        return VaeUse(
            dtype=self.dtype,
            device="cuda" if self.on_gpu else "cpu",
            switches=self.switches,
            slice_frames=self.slice_frames,
        )

    def peak(self, call: str, size: Size | None = None) -> VaePeak:
        """Memory of a call on frames of a size; None: on whole ones."""
        return VAES.peak(self.config, call, self.use, size or self.frame)


@lru_cache(maxsize=512)
def encode_way(asked: Pass) -> Streamed:
    """Memory of the streaming encoder."""
    config, boxes = asked.config, encode_tiles(asked)
    if len(boxes) == 1:
        return _whole(asked.peak("encode_slice"))
    cut = split.encode_cut(config)
    high = asked.peak("encode_high", boxes[0].outer.scaled(cut.factor).size)
    features = STEP // cut.time * features_of(asked.frame, cut) * split.encoded_channels(config)
    early = min(asked.warm_up, encode_warm_up(config))
    frames = STEP * asked.frame.pixels * _COLOURS * asked.item
    halves = _SplitBytes(
        low=asked.peak("encode_low"),
        high=high,
        taken=frames,
        given=features * asked.item,
        early=(early + 1) * frames if early else 0,  # slices wait as a whole
        tiles=len(boxes),
        share=_share(asked, boxes, cut),
    )
    visit, low, held = _tiled(asked, halves)
    results = PhaseMemory(0, asked.visit * halves.given)
    early_and_carries = held + PhaseMemory(*_handed_on(asked, halves.low))
    return Streamed(
        begins=PhaseMemory(0),
        steady=(visit, low + results),
        between=early_and_carries,
        waits=early_and_carries,
        buffers=max(high.window, halves.low.window),
    )


@lru_cache(maxsize=512)
def decode_way(asked: Pass) -> Streamed:
    """Memory of the streaming decoder."""
    config, boxes = asked.config, decode_tiles(asked)
    if len(boxes) == 1:
        return _whole(asked.peak("decode_slice"), is_alone=asked.drips)
    cut = split.decode_cut(config)
    high = asked.peak("decode_high", boxes[0].outer.scaled(cut.factor).size)
    features = STEP // cut.time * features_of(asked.frame, cut) * split.decoded_channels(config)
    frames = STEP * asked.frame.pixels * config.upscale**2 * _COLOURS
    taken = features * asked.item
    halves = _SplitBytes(
        low=asked.peak("decode_low"),
        high=high,
        taken=taken,
        given=frames * asked.item,
        early=min(asked.warm_up, decode_warm_up(config)) * taken,
        tiles=len(boxes),
        share=_share(asked, boxes, cut),
    )
    visit, low, held = _tiled(asked, halves)
    fresh, handed_on = (
        PhaseMemory(0, asked.visit * taken),
        PhaseMemory(*_handed_on(asked, halves.low)),
    )
    waits = PhaseMemory(halves.low.carry) + fresh if asked.drips else handed_on
    return Streamed(
        begins=PhaseMemory(0),
        steady=(visit + PhaseMemory(halves.low.result), low + fresh),
        between=held + handed_on,
        waits=held + waits,
        buffers=max(high.window, halves.low.window),
        canvas=asked.visit * halves.given,
        result=halves.low.result,
    )


def _whole(found: VaePeak, *, is_alone: bool = False) -> Streamed:
    """Memory of whole frames; with single slices the result of the one before is freed."""
    return Streamed(
        begins=PhaseMemory(found.first),
        steady=(PhaseMemory(found.later - (found.result if is_alone else 0)),),
        between=PhaseMemory(found.carry),
        waits=PhaseMemory(found.carry),
        buffers=found.window,
        opens=found.opens,
        result=found.result,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SplitBytes:
    """Both halves of a way, and what passes.

    Attributes:
        low: Memory of the part that whole frames go through.
        high: Memory of the part that a tile goes through.
        taken: Bytes for each latent that tiles take, of whole frames.
        given: Bytes of their results.
        early: Bytes that tiles take once more.
        tiles: Number of tiles.
        share: Share of a frame that is one tile.
    """

    low: VaePeak
    high: VaePeak
    taken: int
    given: int
    early: int
    tiles: int
    share: float


def _tiled(asked: Pass, halves: _SplitBytes) -> tuple[PhaseMemory, PhaseMemory, PhaseMemory]:
    """While tiles are visited, while the low half works, and what is kept between both."""
    low, high = halves.low, halves.high
    window = max(low.window, high.window)
    others = halves.tiles if asked.on_gpu else halves.tiles - 1
    waiting = 0 if asked.warm_up else high.carry * others
    kept = 0 if asked.warm_up else high.carry * halves.tiles
    latents = max(1, asked.slice_frames // STEP)
    beginning = 1 + 1 / (STEP * latents) if asked.warm_up else 1  # one more where a clip begins
    entries = round(beginning * latents * halves.taken * halves.share)
    passing = asked.visit * (halves.taken + halves.given)
    tile = max(high.first if asked.warm_up else 0, high.later)
    if asked.at_once == 1:
        tile += window - high.window
    visit = PhaseMemory(asked.at_once * (tile + entries), passing + halves.early + waiting)
    parked = low.carry if asked.parks else 0  # its buffer stays
    whole = PhaseMemory(low.later + window - low.window, halves.early + kept + parked)
    return visit + PhaseMemory(*_handed_on(asked, low)), whole, PhaseMemory(0, halves.early + kept)


def _handed_on(asked: Pass, low: VaePeak) -> tuple[int, int]:
    """Bytes of what the low half hands on while tiles are visited: on the device, on the host."""
    return (0, low.carry) if asked.parks else (low.carry, 0)


def _share(asked: Pass, boxes: list[split.TileBox], cut: split.Cut) -> float:
    return boxes[0].outer.size.pixels / features_of(asked.frame, cut)


def features_of(frame: Size, cut: split.Cut) -> int:
    """Features of a frame where encoder or decoder is cut."""
    return frame.pixels // cut.factor**2


def encode_tiles(asked: Pass) -> list[split.TileBox]:
    """Tiles of a frame that is encoded."""
    return split.encode_tiles(asked.config, asked.frame, asked.tile)


def decode_tiles(asked: Pass) -> list[split.TileBox]:
    """Tiles of a frame that is decoded."""
    return split.decode_tiles(asked.config, asked.frame, asked.tile)
