"""Memory of the Wan VAEs while shots stream through them.

Their calls are measured; what `streams` and `tiled` of that family keep around them is counted
here, from sizes alone. The tests compare both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from engine.core.geometry import Size
from engine.models.planning.memory import PhaseMemory, Streamed
from engine.models.video_vae.measured_memory import MeasuredVae
from engine.models.video_vae.vae_use import StreamUse, TilesOnHost, VaePeak, VaeUse
from engine.models.wan.vae import split
from engine.models.wan.vae.config import WanConfig
from engine.models.wan.vae.receptive_field import decode_warm_up, encode_warm_up

_PASSES = {"2.1": "wan21", "2.2": "wan22"}  # by layout
VAES = MeasuredVae(
    "engine.models.wan.vae.load", split.pieces, lambda config: _PASSES[config.layout]
)
STEP = 4  # frames of a latent
_COLOURS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass(StreamUse):
    """Use of a VAE for shots in one direction.

    Attributes:
        slice_frames: Frames at a time.
        drips: Latents come to the decoder one by one, as they do where the encoder has no tiles.
    """

    config: WanConfig
    slice_frames: int = STEP
    drips: bool = False

    @property
    def visits(self) -> tuple[int, int]:
        """Latents that a tile is visited for: first in a shot, and later.

        They come in slices, of which the first has one more.
        """
        step = max(1, self.slice_frames // STEP)
        first = 1 + step * math.ceil((split.LATENTS_PER_VISIT - 1) / step)
        return first, step * math.ceil(split.LATENTS_PER_VISIT / step)

    @property
    def visit(self) -> int:
        """Latents that a tile is visited for, at most."""
        return max(self.visits)

    def entries(self, each: int) -> int:
        """Most frames or features of a visit; a latent has n of them, the first one of a shot 1."""
        first, later = self.visits
        return max(1 + each * (first - 1), each * later)

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
    low = asked.peak("encode_low")
    high = asked.peak("encode_high", boxes[0].outer.scaled(cut.factor).size)
    feature = features_of(asked.frame, cut) * split.encoded_channels(config) * asked.item
    frame = asked.frame.pixels * _COLOURS * asked.item
    early = min(asked.warm_up, encode_warm_up(config))
    waiting = TilesOnHost(
        tiles=len(boxes),
        carry=0 if asked.warm_up else high.carry,
        fresh=asked.entries(STEP) * frame,
        early=(early + 1) * STEP * frame if early else 0,  # slices wait as a whole
        results=asked.entries(STEP // cut.time) * feature,
        on_gpu=asked.on_gpu,
        handed_on=_handed_on(asked, low),
    )
    visit = waiting.visiting(_tile(asked, low, high, STEP * frame * _share(asked, boxes, cut)))
    return Streamed(
        begins=PhaseMemory(0),
        steady=(visit, waiting.kept + _low(asked, low, high, waiting.results)),
        between=waiting.between,
        waits=waiting.between,
        buffers=max(high.window, low.window),
    )


@lru_cache(maxsize=512)
def decode_way(asked: Pass) -> Streamed:
    """Memory of the streaming decoder."""
    config, boxes = asked.config, decode_tiles(asked)
    if len(boxes) == 1:
        return _whole(asked.peak("decode_slice"), is_alone=asked.drips)
    cut = split.decode_cut(config)
    low = asked.peak("decode_low")
    high = asked.peak("decode_high", boxes[0].outer.scaled(cut.factor).size)
    each = STEP // cut.time
    feature = features_of(asked.frame, cut) * split.decoded_channels(config) * asked.item
    frame = asked.frame.pixels * config.upscale**2 * _COLOURS * asked.item
    waiting = TilesOnHost(
        tiles=len(boxes),
        carry=0 if asked.warm_up else high.carry,
        fresh=asked.entries(each) * feature,
        early=min(asked.warm_up, decode_warm_up(config)) * each * feature,
        results=asked.entries(STEP) * frame,
        on_gpu=asked.on_gpu,
        handed_on=_handed_on(asked, low),
    )
    tile = _tile(asked, low, high, each * feature * _share(asked, boxes, cut))
    waits = waiting.between
    if asked.drips:
        waits = waiting.kept + PhaseMemory(low.carry, waiting.fresh)
    return Streamed(
        begins=PhaseMemory(0),
        steady=(
            waiting.visiting(low.result + tile),
            waiting.kept + _low(asked, low, high, waiting.fresh),
        ),
        between=waiting.between,
        waits=waits,
        buffers=max(high.window, low.window),
        canvas=waiting.results,
        result=low.result,
    )


def _whole(found: VaePeak, *, is_alone: bool = False) -> Streamed:
    """Memory of whole frames; with single slices the result of the one before is freed."""
    return Streamed(
        begins=PhaseMemory(found.first),
        steady=(PhaseMemory(found.alone if is_alone else found.later),),
        between=PhaseMemory(found.carry),
        waits=PhaseMemory(found.carry),
        buffers=found.window,
        opens=found.opens,
        result=found.result,
    )


def _tile(asked: Pass, low: VaePeak, high: VaePeak, taken: float) -> int:
    """Bytes on the device of the tiles in work, each of which takes n bytes for a latent."""
    latents = max(1, asked.slice_frames // STEP)
    beginning = 1 + 1 / (STEP * latents) if asked.warm_up else 1  # one more where a clip begins
    tile = max(high.first if asked.warm_up else 0, high.alone)
    if asked.at_once == 1:
        tile += max(low.window, high.window) - high.window
    return asked.at_once * (tile + round(beginning * latents * taken))


def _low(asked: Pass, low: VaePeak, high: VaePeak, waiting: int) -> PhaseMemory:
    """Memory while the low half works and n bytes wait for it, or come from it."""
    parked = low.carry if asked.parks else 0  # its buffer stays
    return PhaseMemory(low.later + max(low.window, high.window) - low.window, parked + waiting)


def _handed_on(asked: Pass, low: VaePeak) -> PhaseMemory:
    """Memory of what the low half hands on while tiles are visited."""
    return PhaseMemory(0, low.carry) if asked.parks else PhaseMemory(low.carry)


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
