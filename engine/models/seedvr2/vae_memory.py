"""Memory of SeedVR2's VAE while shots stream through it.

Its calls are measured; what `vae.streams` keeps around them is counted here, from sizes alone. The
tests compare both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from engine.core.geometry import Size
from engine.models.planning.memory import PhaseMemory, Streamed
from engine.models.seedvr2.plan import STEP, latents_of
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.tiling import (
    BLEND_PX,
    USUAL_SPAN,
    Tiling,
    decode_tiles,
    encode_tiles,
    pieces,
)
from engine.models.video_vae.measured_memory import MeasuredVae
from engine.models.video_vae.vae_use import StreamUse, TilesOnHost, VaePeak, VaeUse

VAES = MeasuredVae("engine.models.seedvr2.vae.load", pieces, lambda _config: "seedvr2")
_CODE_BYTES = 6  # of a px of a canvas
# Parts of tiles whose codes are on their way to the canvas, by tiles in work at a time.
_COPIED_PARTS = {1: 3, 2: 4}
_COLOURS = 3
_EXACT = 4  # bytes of a number of latents and of finished frames


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(StreamUse):
    """Use of the VAE for shots, in both directions.

    Attributes:
        span: Latents that a tile is visited for.
        is_whole: Tiles go through all of the decoder.
        film: Frames of the longest shot, at most; 0 where that is not known.
    """

    config: VaeConfig
    span: int = USUAL_SPAN
    is_whole: bool = False
    film: int = 0
    parks: bool = True

    @property
    def is_one_visit(self) -> bool:
        """Whether no tile is visited twice: carries end where they begin."""
        return self.film > 0 and latents_of(self.film) <= self.span

    @property
    def carries(self) -> bool:
        """Whether tiles go on with what they kept."""
        return not self.warm_up and not self.is_one_visit

    @property
    def early(self) -> int:
        """Latents of a span before that are kept for tiles to begin with."""
        return 0 if self.is_one_visit else self.warm_up

    @property
    def latents(self) -> int:
        """Latents of a span, or all of the longest shot."""
        return min(self.span, latents_of(self.film)) if self.film else self.span

    def at_most(self, frames: int) -> int:
        """At most n frames: all of the longest shot if it has fewer."""
        return min(frames, self.film or frames)

    @property
    def tile_pixels(self) -> int:
        """Size of a tile at most."""
        return (self.tile or self.frame).pixels

    def peak(self, call: str, size: Size) -> VaePeak:
        """Memory of a call of the VAE on frames of a size, slice by slice."""
        use = VaeUse(
            dtype=self.dtype,
            device="cuda" if self.on_gpu else "cpu",
            switches=self.switches,
            slice_frames=STEP,
            is_image=self.film == 1,
        )
        return VAES.peak(self.config, call, use, size)


@lru_cache(maxsize=512)
def encoding(asked: Asked) -> Streamed:
    """Memory of the streaming encoder."""
    boxes = encode_boxes(asked)
    found = asked.peak("encode_slice", boxes[0])
    latent = asked.config.latent_channels * _EXACT
    given = 2 * asked.span * (boxes[0].pixels // 64) * latent  # of a tile, and joined
    if len(boxes) == 1:
        return _whole(asked, found, given)
    frame = asked.frame.pixels
    parked = frame * _COLOURS * asked.item
    waiting = TilesOnHost(
        tiles=len(boxes),
        carry=found.carry if asked.carries else 0,
        fresh=asked.at_most(STEP * asked.span + 1) * parked,
        early=STEP * asked.early * parked,
        results=2 * asked.span * (frame // 64) * latent,
        on_gpu=asked.on_gpu,
    )
    at_once = min(asked.at_once, len(boxes))
    working = waiting.visiting(at_once * (max(found.first, found.later) + given))
    return Streamed(
        begins=working,
        steady=(working,),
        between=waiting.between,
        waits=waiting.between,
        buffers=found.window,
        parks=waiting.carry * len(boxes),
    )


@lru_cache(maxsize=512)
def decoding(asked: Asked) -> Streamed:
    """Memory of the streaming decoder."""
    if asked.tile is None:
        return _whole(asked, asked.peak("decode_slice", asked.frame))
    boxes = decode_boxes(asked, asked.tile)
    if asked.is_whole:
        tile = asked.peak("decode_slice", boxes[0])
        features = asked.config.latent_channels * (asked.frame.pixels // 64) * _EXACT
        return _tiled(asked, None, tile, len(boxes), features)
    low = asked.peak("decode_low", asked.frame)
    tile = asked.peak("decode_high", boxes[0])
    width, times = asked.config.block_out_channels[-2], 1 + asked.config.decoder_time[0]
    features = times * width * (asked.frame.pixels // 16) * asked.item
    return _tiled(asked, low, tile, len(boxes), features)


def _tiled(asked: Asked, low: VaePeak | None, tile: VaePeak, tiles: int, features: int) -> Streamed:
    """Memory where tiles visit the features of some latents, each of n bytes.

    Args:
        asked: Use of the VAE.
        low: Memory of the part that whole frames go through before.
        tile: Memory of the part that a tile goes through.
        tiles: Number of tiles.
        features: Bytes for each latent.
    """
    handed_on = 0 if low is None or asked.is_one_visit else low.carry
    waiting = TilesOnHost(
        tiles=tiles,
        carry=tile.carry if asked.carries else 0,
        fresh=asked.latents * features,
        early=asked.early * features,
        results=asked.at_most(STEP * asked.span) * asked.frame.pixels * _CODE_BYTES,
        handed_on=PhaseMemory(0, handed_on),
        on_gpu=asked.on_gpu,
    )
    at_once = min(asked.at_once, tiles)
    copied = _COPIED_PARTS[at_once] * STEP * asked.tile_pixels * _CODE_BYTES if asked.on_gpu else 0
    # What a tile has made is freed before its next slice; pages of it stay with a process.
    later = tile.alone if asked.on_gpu else tile.later
    working = at_once * (tile.result + max(tile.first, later))  # with a tile that is shown
    steady = [waiting.visiting(features + working + copied)]
    if low is not None:
        buffer = handed_on if asked.on_gpu else 0  # stays while its carry is on the GPU
        steady.append(waiting.kept + PhaseMemory(low.later, buffer + waiting.fresh))
    return Streamed(
        begins=PhaseMemory(low.first if low is not None else 0),
        steady=tuple(steady),
        between=waiting.between + PhaseMemory(features + tile.result),  # and of a tile
        waits=waiting.between + PhaseMemory(0, waiting.fresh - features),
        buffers=max(tile.window, 0 if low is None else low.window),
        parks=waiting.carry * tiles,
        canvas=waiting.results,
    )


def _whole(asked: Asked, found: VaePeak, given: int = 0) -> Streamed:
    carry = 0 if asked.is_one_visit else found.carry
    parked = carry if asked.parks else 0
    buffer = parked if asked.on_gpu else 0  # stays where the carry was parked
    return Streamed(
        begins=PhaseMemory(found.first + given, buffer),
        steady=(PhaseMemory(found.later + given, buffer),),
        between=PhaseMemory(found.carry, buffer),
        waits=PhaseMemory(carry - parked, parked),
        buffers=found.window,
        parks=parked,
    )


@lru_cache(maxsize=512)
def encode_boxes(asked: Asked) -> list[Size]:
    """Tiles of a frame that is encoded, px."""
    if asked.tile is None:
        return [asked.frame]
    return encode_tiles(asked.config, asked.frame, asked.tile).sizes


@lru_cache(maxsize=512)
def decode_boxes(asked: Asked, tile: Size) -> list[Size]:
    """Tiles of a frame that is decoded, px of the result, halo included."""
    tiling = Tiling(tile=tile, blend=BLEND_PX, is_whole=asked.is_whole)
    return decode_tiles(asked.config, asked.frame, tiling).sizes
