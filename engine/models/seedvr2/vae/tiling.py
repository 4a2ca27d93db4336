"""How frames are cut into tiles, and how a tile continues in time."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.geometry import Size
from engine.models.seedvr2.vae.config import VaeConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How frames are cut into tiles, and how a tile continues in time.

    Attributes:
        tile: Most pixels computed at a time; of the decoder's large part with its halo, see
            `split_grid.split_tiles`.
        blend: Width of the ramp between decoded tiles, in pixels.
        warm_up: 0: every tile continues with its carry, which waits in host memory, some 8 KiB for
            each pixel of the decoder and 4 of the encoder. Else it begins so many latents earlier,
            which costs their time and gives nearly the same picture: from `decoder_reach` latents
            on an exact one.
        is_whole: Tiles go through all of the decoder: less memory, and neighbours differ a
            little. `blend` is that of `split_grid` then.
    """

    tile: Size
    blend: int = 32
    warm_up: int = 0
    is_whole: bool = False


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
