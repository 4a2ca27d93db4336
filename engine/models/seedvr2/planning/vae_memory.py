"""Memory of SeedVR2's VAE while shots stream through it.

Its calls are measured; what `encode_stream` and `decode_stream` keep around them is counted here,
from sizes alone. The tests compare both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from engine.core.geometry import Size
from engine.models.memory_cost import DTYPE_BYTES
from engine.models.planning.memory import PhaseMemory, Streamed
from engine.models.seedvr2.plan import STEP, latents_of
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.tiling import USUAL_SPAN, pieces, split_tiles, whole_tiles
from engine.models.video_vae.measured_memory import MeasuredVae
from engine.models.video_vae.vae_use import VaePeak, VaeUse
from engine.settings.optimisations import VaeSwitches
from engine.tiling.grid import tile_grid

VAES = MeasuredVae("engine.models.seedvr2.vae.load", pieces)
BLEND_PX = 32  # of the ramp between decoded tiles
ENCODE_OVERLAP_PX = 64
_CODE_BYTES = 6  # of a px of a canvas
# Parts of tiles whose codes are on their way to the canvas, by tiles in work at a time.
_COPIED_PARTS = {1: 3, 2: 4}
_COLOURS = 3
_EXACT = 4  # bytes of a number of latents and of finished frames


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Use of the VAE for shots, in both directions.

    Attributes:
        config: Configuration of the VAE.
        frame: Padded frames, px.
        device: "cpu" or "cuda".
        dtype: Type of the values.
        switches: Optimisations.
        tile: Most px at a time; None for whole frames.
        warm_up: Latents that tiles begin early; 0 where they go on with a carry.
        span: Latents that a tile is visited for.
        is_whole: Tiles go through all of the decoder.
        film: Frames of the longest shot, at most; 0 where that is not known.
        parks: Carries of whole frames wait in main memory.
        at_once: Tiles that are in work at a time. Memory of one serves no other meanwhile, so each
            counts with its most.
    """

    config: VaeConfig
    frame: Size
    device: str
    dtype: str
    switches: VaeSwitches
    tile: Size | None = None
    warm_up: int = 0
    span: int = USUAL_SPAN
    is_whole: bool = False
    film: int = 0
    parks: bool = True
    at_once: int = 1

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

    def at_most(self, frames: int) -> int:
        """So many frames, or all of the longest shot."""
        return min(frames, self.film or frames)

    @property
    def tile_pixels(self) -> int:
        """Size of a tile at most."""
        return (self.tile or self.frame).pixels

    @property
    def on_gpu(self) -> bool:
        """Whether the device has memory of its own."""
        return self.device == "cuda"

    @property
    def item(self) -> int:
        """Bytes per value."""
        return DTYPE_BYTES[self.dtype]

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
    early = STEP * asked.early * parked
    blended = 2 * asked.span * (frame // 64) * latent
    carries = found.carry * len(boxes) if asked.carries else 0
    others = _others(asked, found.carry, len(boxes))
    host = asked.at_most(STEP * asked.span + 1) * parked + early + others + blended
    tiles = min(asked.at_once, len(boxes))
    working = PhaseMemory(tiles * (max(found.first, found.later) + given), host)
    waits = PhaseMemory(0, early + carries)
    return Streamed(
        begins=working,
        steady=(working,),
        between=waits,
        waits=waits,
        buffers=found.window,
        parks=carries,
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
    early, fresh = asked.early * features, asked.span * features
    canvas = asked.at_most(STEP * asked.span) * asked.frame.pixels * _CODE_BYTES
    carries = tile.carry * tiles if asked.carries else 0
    others = _others(asked, tile.carry, tiles)
    known = early + fresh
    handed_on = 0 if low is None or asked.is_one_visit else low.carry
    buffer = handed_on if asked.on_gpu else 0  # stays while its carry is on the GPU
    last = features + tile.result  # of whole frames, and of the tile before
    at_once = min(asked.at_once, tiles)
    parts = _COPIED_PARTS[at_once] if asked.on_gpu else 0
    copied = parts * STEP * asked.tile_pixels * _CODE_BYTES
    working = at_once * (tile.result + max(tile.first, tile.later))
    visiting = PhaseMemory(features + working + copied, handed_on + others + known + canvas)
    steady = [visiting]
    if low is not None:
        steady.append(PhaseMemory(low.later, buffer + carries + known))
    return Streamed(
        begins=PhaseMemory(low.first if low is not None else 0),
        steady=tuple(steady),
        between=PhaseMemory(last, handed_on + carries + early),
        waits=PhaseMemory(0, handed_on + carries + known - features),
        buffers=max(tile.window, 0 if low is None else low.window),
        parks=carries,
        canvas=canvas,
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


def _others(asked: Asked, carry: int, tiles: int) -> int:
    """Bytes of carries on the host while one tile works; what it has kept leaves its old place."""
    return carry * (tiles if asked.on_gpu else tiles - 1) if asked.carries else 0


@lru_cache(maxsize=512)
def encode_boxes(asked: Asked) -> list[Size]:
    """Tiles of a frame that is encoded, px."""
    factor = asked.config.spatial_factor
    canvas = Size(asked.frame.width // factor, asked.frame.height // factor)
    if asked.tile is None:
        return [asked.frame]
    tile = Size(max(1, asked.tile.width // factor), max(1, asked.tile.height // factor))
    shared = min(ENCODE_OVERLAP_PX // factor, (min(tile.width, tile.height) - 1) // 2)
    return [box.size.scaled(factor) for box in tile_grid(canvas, tile, shared)]


@lru_cache(maxsize=512)
def decode_boxes(asked: Asked, tile: Size) -> list[Size]:
    """Tiles of a frame that is decoded, px of the result, halo included."""
    factor = asked.config.spatial_factor
    latent = Size(asked.frame.width // factor, asked.frame.height // factor)
    if asked.is_whole:
        cut = whole_tiles(asked.config, latent, tile)
    else:
        cut = split_tiles(asked.config, latent, tile, BLEND_PX)
    return [box.size.scaled(cut.factor) for box in cut.boxes]
