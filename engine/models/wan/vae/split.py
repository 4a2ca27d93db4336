"""The cut of the Wan VAEs in two halves, and the tiles of the local half: integers only.

Encoder and decoder have a half with the attention, at low resolution, which sees whole frames, and
a local half at high resolution with most of the work and memory. Features pass between them.
Norms use one position, so a position of the local half depends on the receptive field of its
convolutions only, `halo` features around it: tiles with so large a border are exact.

| | low | high |
|---|---|---|
| decoder, 2.1 | conv2, conv1, middle, stage 0, residual blocks of stage 1 | the rest |
| decoder, 2.2 | conv2, conv1, middle, stage 0 | the rest; a stage cannot be cut: its shortcut |
| encoder | stages 2 and 3, middle, head, conv1 | (patches,) encoder.conv1, stages 0 and 1 |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.core.geometry import Box, Size
from engine.models.video_vae.vae_use import Piece
from engine.tiling.grid import cells, smallest_tile, tile_grid

if TYPE_CHECKING:
    from engine.models.wan.vae.config import Stage, WanConfig

_DECODER_LOW = 1  # whole stages
_ENCODER_HIGH = 2

LATENTS_PER_VISIT = 8
"""Latents that wait before tiles are visited, so that carries are moved rarely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Features that pass between the two halves.

    Attributes:
        factor: Pixels of the encoded frame for each feature, on each side. Decoded frames may be
            larger, by `config.upscale`.
        halo: Features on each side that a pixel (decoder) or feature (encoder) depends on.
        time: Frames for each feature frame, the first one of a clip apart.
    """

    factor: int
    halo: int
    time: int


@dataclass(frozen=True, slots=True)
class TileBox:
    """A tile, in features.

    Attributes:
        outer: Box that is computed.
        inner: Box in it that is right and shown; over all tiles these make the frame, each once.
    """

    outer: Box
    inner: Box


def decoder_low_stages(config: WanConfig) -> int:
    """Stages of the decoder that belong to its low half as a whole."""
    return min(_DECODER_LOW, len(config.time_down))


def is_cut_inside(config: WanConfig) -> bool:
    """Whether the residual blocks of the next stage belong to the decoder's low half too."""
    return not config.has_stage_shortcuts


def decoder_high_stages(config: WanConfig) -> tuple[Stage, ...]:
    """Layers of each stage in the decoder's high half."""
    first, *others = config.decoder_stages[decoder_low_stages(config) :]
    return replace(first, blocks=0) if is_cut_inside(config) else first, *others


def encoder_high_stages(config: WanConfig) -> int:
    """Stages of the encoder that belong to its high half as a whole."""
    return min(_ENCODER_HIGH, len(config.time_down))


def decode_cut(config: WanConfig) -> Cut:
    """Cut of the decoder.

    The halo is counted backwards from the picture, in positions of each stage: a 3x3 convolution
    sees one more, two of them in each residual block, one in an upsampler, whose own step halves
    the number. Published 2.1: 1 + 6 + 1 = 8, halved 4, 4 + 6 + 1 = 11, halved 5.5, so 6. In 2.2
    follow the 6 of the blocks of stage 1: 12.
    """
    stages = decoder_high_stages(config)
    reach = 1
    for stage in reversed(stages):
        if stage.space:
            reach = -(-(reach + 1) // 2)
        reach += 2 * stage.blocks
    factor = config.spatial_factor >> decoder_low_stages(config)
    return Cut(factor=factor, halo=reach, time=1 << sum(stage.time for stage in stages))


def encode_cut(config: WanConfig) -> Cut:
    """Cut of the encoder.

    Counted backwards from a feature as in `decode_cut`. A downsampler reads position 2x to 2x + 2
    for its x, so it looks one to the right and none to the left: published 16 px of the (folded)
    frame to the right and 13 to the left, which are 4 features of either version.
    """
    high = encoder_high_stages(config)
    stages = config.encoder_stages[:high]
    reach = 0
    for stage in reversed(stages):
        reach = 2 * reach + 1 + 2 * stage.blocks
    halo = -(-(reach + 1) // (1 << high))
    return Cut(factor=config.patch << high, halo=halo, time=1 << sum(s.time for s in stages))


def pieces(config: WanConfig, slice_frames: int) -> dict[str, Piece]:
    """Inputs of the calls that streams make, see `MeasuredVae`."""
    latents = slice_frames // config.temporal_factor
    clip = Piece(channels=config.in_channels, factor=1, first=slice_frames + 1, later=slice_frames)
    latent = Piece(
        channels=config.latent_channels,
        factor=config.spatial_factor,
        first=latents + 1,
        later=latents,
    )
    encode, decode = encode_cut(config), decode_cut(config)
    encoded, decoded = slice_frames // encode.time, config.temporal_factor // decode.time * latents
    return {
        "encode_slice": clip,
        "encode_high": replace(clip, is_clip=False),
        "encode_low": Piece(
            channels=encoded_channels(config),
            factor=encode.factor,
            first=encoded + 1,
            later=encoded,
            is_clip=False,
        ),
        "decode_slice": latent,
        "decode_low": latent,
        "decode_high": Piece(
            channels=decoded_channels(config),
            factor=decode.factor,
            first=decoded + 1,
            later=decoded,
            is_clip=False,
        ),
    }


def encoded_channels(config: WanConfig) -> int:
    """Channels of what passes between the halves of the encoder."""
    return config.encoder_stages[encoder_high_stages(config) - 1].result


def decoded_channels(config: WanConfig) -> int:
    """Channels of what passes between the halves of the decoder."""
    first = decoder_high_stages(config)[0]
    return first.outer if is_cut_inside(config) else first.inner


def least_tile(cut: Cut) -> int:
    """The smallest side of a tile that a frame can be cut into, in features."""
    return 4 * cut.halo + 1


def tiles(canvas: Size, tile: Size, cut: Cut) -> list[TileBox]:
    """Cut a frame into as few tiles as `tile` permits, no larger than needed.

    All outer boxes have one shape, so inner boxes at the edges of the frame are larger.

    Args:
        canvas: The frame in features.
        tile: Most features that are computed at a time, halo included; at least `least_tile` on
            a side that is shorter than the frame's.
        cut: Cut of the encoder or decoder.

    Raises:
        ValueError: The tile is smaller than `least_tile`.
    """
    shared = 2 * cut.halo
    boxes = tile_grid(canvas, smallest_tile(canvas, tile, shared), shared)
    return [TileBox(*pair) for pair in zip(boxes, cells(canvas, boxes), strict=True)]


def encode_tiles(config: WanConfig, frame: Size, tile: Size | None) -> list[TileBox]:
    """Tiles of a frame that is encoded.

    Args:
        config: Configuration of the VAE.
        frame: In px, a multiple of `config.spatial_factor`.
        tile: Most px computed at a time, halo included; None for the whole frame.
    """
    cut = encode_cut(config)
    return tiles(_features(frame, cut.factor), _features(tile or frame, cut.factor), cut)


def decode_tiles(config: WanConfig, frame: Size, tile: Size | None) -> list[TileBox]:
    """Tiles of a frame that is decoded.

    Args:
        config: Configuration of the VAE.
        frame: In px as it would be encoded, a multiple of `config.spatial_factor`.
        tile: Most px of the result computed at a time, halo included; None for the whole frame.
    """
    cut = decode_cut(config)
    most = _features(tile or frame.scaled(config.upscale), cut.factor * config.upscale)
    return tiles(_features(frame, cut.factor), most, cut)


def _features(pixels: Size, factor: int) -> Size:
    return Size(max(1, pixels.width // factor), max(1, pixels.height // factor))
