"""Tiles of the VAE: grids of the decoder, halos, warm-up; integers only.

Split decode runs the low-resolution part on the whole frame (first convolution, middle with its
attention, block 0, residual blocks of block 1) and cuts its result, the features, into tiles for
the rest. A tile sees `halo` features more than it shows on each inner side, as much as its
convolutions can see: only the statistics of its norms differ from the whole frame's.

Where even the low-resolution part of a whole frame is too much, tiles go through all of the
decoder. Attention and norms then see the tile alone, so neighbours differ; a wide ramp hides that,
and colours are matched to the source's afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.geometry import Box, Size
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.video_vae.vae_use import Piece
from engine.tiling.grid import smallest_tile, tile_grid
from engine.tiling.latent_clips import Lookback

USUAL_SPAN = 8  # latents
BLEND_PX = 32  # of the ramp between tiles of the decoder's large part
WHOLE_BLEND = 64  # px, of the ramp between tiles that went through all of the decoder
ENCODE_OVERLAP_PX = 64  # that neighbouring tiles of the encoder have in common
_WHOLE_MARGIN = 16  # px at the edge of a tile of the whole decoder that are never shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """Division of frames into tiles, and continuation of a tile in time.

    Attributes:
        tile: Most pixels computed at a time; of the decoder's large part with its halo, see
            `split_tiles`.
        blend: Width of the ramp between decoded tiles, in pixels.
        warm_up: 0: every tile continues with its carry, which waits in host memory, some 8 KiB for
            each pixel of the decoder and 4 of the encoder. Else the number of latents by which it
            begins earlier, which costs their time and gives nearly the same picture: from
            `decoder_reach` latents on an exact one.
        is_whole: Tiles go through all of the decoder: less memory, and neighbours differ a
            little. `blend` is WHOLE_BLEND then.
        span: Latents that a tile is visited for. Spans lie on a grid that the shot's first latent
            begins, so that a tile begins early at the same latents wherever a job is continued.
        at_once: Tiles that are in work at a time, on a stream each.
    """

    tile: Size
    blend: int = BLEND_PX
    warm_up: int = 0
    is_whole: bool = False
    span: int = USUAL_SPAN
    at_once: int = 1


def pieces(config: VaeConfig, slice_frames: int) -> dict[str, Piece]:
    """Inputs of the calls that streams make, see `MeasuredVae`."""
    latents, factor = slice_frames // config.temporal_factor, config.spatial_factor
    latent = Piece(channels=config.latent_channels, factor=factor, first=latents + 1, later=latents)
    times = 2 if config.decoder_time[0] else 1
    return {
        "encode_slice": Piece(
            channels=config.in_channels, factor=1, first=slice_frames + 1, later=slice_frames
        ),
        "decode_slice": latent,
        "decode_low": latent,
        "decode_high": Piece(
            channels=config.block_out_channels[-2],
            factor=factor // 2,
            first=times * latents + 1,
            later=times * latents,
            is_clip=False,
        ),
    }


_TAPS = 2  # frames before the present one that a 3x3x3 convolution sees
_MIDDLE = 4 * _TAPS  # two residual blocks of two convolutions


def decoder_reach(config: VaeConfig) -> int:
    """Latents before one that its frames depend on: 37 in the published model.

    Counted backwards from the picture; an upsampler that doubles time halves the number.
    """
    layers = config.layers_per_block + 1
    reach = _TAPS  # conv_out
    for level in reversed(range(len(config.block_out_channels))):
        if level < len(config.decoder_time):
            reach += _TAPS  # the upsampler's convolution
            if config.decoder_time[level]:
                reach = -(-reach // 2)
        reach += 2 * layers * _TAPS
    return reach + _MIDDLE + _TAPS


def encoder_reach(config: VaeConfig) -> int:
    """Latents before one that it depends on: 28 in the published model.

    Counted backwards from the latent; a downsampler that halves time doubles the number.
    """
    reach = _TAPS + _MIDDLE
    for level in reversed(range(len(config.block_out_channels))):
        if level < len(config.encoder_time) and config.encoder_time[level]:
            reach = 2 * reach + _TAPS
        reach += 2 * config.layers_per_block * _TAPS
    return -(-(reach + _TAPS) // config.temporal_factor)


def encoder_lookback(config: VaeConfig, tiling: Tiling | None) -> Lookback:
    """Place where the encoder has to begin for a latent to be the same."""
    if tiling is None or not tiling.warm_up:
        return Lookback(encoder_reach(config))
    return Lookback(tiling.warm_up, tiling.span)


def decoder_lookback(config: VaeConfig, tiling: Tiling | None) -> Lookback:
    """Place where the decoder has to begin; where tiles begin early, its small part is known."""
    if tiling is None or not tiling.warm_up:
        return Lookback(decoder_reach(config))
    return Lookback(tiling.warm_up + decoder_reach(config), tiling.span)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameTiles:
    """Tiles of a frame.

    Attributes:
        factor: Pixels of the frame per feature, on each side.
        features: Size of the whole frame in features.
        boxes: Tiles in features, all of one size, halo included.
        shared: Features that neighbours have in common, at least.
    """

    factor: int
    features: Size
    boxes: tuple[Box, ...]
    shared: int

    @property
    def canvas(self) -> Size:
        """The frame in pixels."""
        return self.features.scaled(self.factor)

    @property
    def sizes(self) -> list[Size]:
        """Size of each tile in pixels."""
        return [box.size.scaled(self.factor) for box in self.boxes]


def encode_tiles(config: VaeConfig, frame: Size, tile: Size | None) -> FrameTiles:
    """Cut a frame that is encoded into tiles; a feature is a latent position.

    Args:
        config: Configuration of the VAE.
        frame: Size of the frame, px.
        tile: Most pixels that are computed at a time; None for the whole frame.
    """
    factor = config.spatial_factor
    features = _in_latents(frame, factor)
    most = features if tile is None else _in_latents(tile, factor)
    shared = min(ENCODE_OVERLAP_PX // factor, (min(most.width, most.height) - 1) // 2)
    boxes = tile_grid(features, most, shared)
    return FrameTiles(factor=factor, features=features, boxes=tuple(boxes), shared=shared)


def decode_tiles(config: VaeConfig, frame: Size, tiling: Tiling) -> FrameTiles:
    """Cut a frame that is decoded into tiles.

    Args:
        config: Configuration of the VAE.
        frame: Size of the frame, px.
        tiling: Size of the tiles, and the part of the decoder that they go through.

    Raises:
        ValueError: As for `split_tiles` and `whole_tiles`.
    """
    factor = config.spatial_factor
    latent = Size(frame.width // factor, frame.height // factor)
    if tiling.is_whole:
        return whole_tiles(config, latent, tiling.tile)
    return split_tiles(config, latent, tiling.tile, tiling.blend)


def _in_latents(size: Size, factor: int) -> Size:
    return Size(max(1, size.width // factor), max(1, size.height // factor))


def pixels_per_feature(config: VaeConfig) -> int:
    """Pixels of the result per feature on each side: 4 in the published model."""
    return 1 << _levels_of_high_part(config)


def halo(config: VaeConfig) -> int:
    """Features on each side that a pixel of the result depends on.

    Counted backwards from the picture, in pixels of each level: a 3x3 convolution sees one more,
    two of them in each residual block, one in an upsampler; the upsampler's own step halves the
    number. Published: 1 + 6 + 1 = 8 px of the result, then 4 + 6 + 1 = 11 px of half the size,
    which is 22 px of the result, and so 5.5 features: 6, which is 24 px.
    """
    reach = 1
    for _ in range(_levels_of_high_part(config)):
        reach += 2 * (config.layers_per_block + 1) + 1
        reach = (reach + 1) // 2
    return reach


def _levels_of_high_part(config: VaeConfig) -> int:
    """Levels above the first two, each after an upsampler."""
    return max(0, len(config.block_out_channels) - 2)


def split_tiles(config: VaeConfig, latent: Size, tile: Size, blend: int) -> FrameTiles:
    """Cut the features of a frame into as few tiles as `tile` permits, no larger than needed.

    Args:
        config: Configuration of the VAE.
        latent: Size of the frame in latent positions.
        tile: Most pixels of the result that are computed at a time, halo included; a multiple of
            4 (the published model) on both sides. A frame's side or more: not cut on that side.
        blend: Pixels of the result that neighbours share beyond the halo.

    Raises:
        ValueError: The tile is no such multiple, or is not larger than twice what it shares with
            a neighbour: twice the halo, plus `blend`.
    """
    factor = pixels_per_feature(config)
    if tile.width % factor or tile.height % factor:
        raise ValueError(f"a tile of {tile} pixels is no multiple of {factor}")
    features = latent.scaled(config.spatial_factor // factor)
    shared = 2 * halo(config) + -(-blend // factor)
    most = Size(tile.width // factor, tile.height // factor)
    boxes = tile_grid(features, smallest_tile(features, most, shared), shared)
    return FrameTiles(factor=factor, features=features, boxes=tuple(boxes), shared=shared)


def whole_tiles(config: VaeConfig, latent: Size, tile: Size) -> FrameTiles:
    """Cut a frame into tiles that go through all of the decoder; a feature is a latent position.

    Args:
        config: Configuration of the VAE.
        latent: Size of the frame in latent positions.
        tile: Most pixels of the result that are computed at a time.

    Raises:
        ValueError: The tile is not larger than twice what it shares with a neighbour.
    """
    factor = config.spatial_factor
    shared = whole_shared(config)
    most = _in_latents(tile, factor)
    boxes = tile_grid(latent, smallest_tile(latent, most, shared), shared)
    return FrameTiles(factor=factor, features=latent, boxes=tuple(boxes), shared=shared)


def whole_shared(config: VaeConfig) -> int:
    """Latent positions that such tiles have in common with a neighbour."""
    return -(-(WHOLE_BLEND + 2 * _WHOLE_MARGIN) // config.spatial_factor)
