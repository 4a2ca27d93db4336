"""Layers of the VAE as data: the list that the fast variant runs, without tensors."""

from __future__ import annotations

from dataclasses import dataclass

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.video_vae.layer_specs import (
    TAPS,
    Attention,
    Block,
    Conv,
    Entry,
    Exit,
    blocks,
    middle,
    point,
)


@dataclass(frozen=True, slots=True)
class Up:
    """An upsampler: what it is when unfolded."""

    widen: Conv
    conv: Conv
    times: int  # frames of each frame

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        """All that it has when unfolded."""
        return (self.widen, self.conv)

    @property
    def norm_widths(self) -> tuple[int, ...]:
        """Channels of each norm."""
        return ()


Part = Entry | Exit | Block | Attention | Up


def encoder_parts(config: VaeConfig) -> list[Part]:
    """From frames to moments."""
    widths = config.block_out_channels
    parts: list[Part] = [Entry(Conv(name="conv_in", inner=config.in_channels, outer=widths[0]))]
    for level, width in enumerate(widths):
        inner = widths[max(0, level - 1)]
        parts += blocks(f"{level}", (inner, width), config.layers_per_block)
        if level < len(config.encoder_time):
            parts.append(_down(f"{level}.down", width, time=config.encoder_time[level]))
    parts += middle(widths[-1])
    moments = 2 * config.latent_channels
    parts.append(Exit(Conv(name="conv_out", inner=widths[-1], outer=moments)))
    if config.quant_conv:
        parts.append(Entry(point("quant_conv", moments, moments)))
    return parts


def decoder_parts(config: VaeConfig) -> tuple[list[Part], list[Part]]:
    """From latent to frames: the part that sees whole frames, and the part that may see tiles."""
    widths, latent = config.block_out_channels[::-1], config.latent_channels
    low: list[Part] = []
    if config.post_quant_conv:
        low.append(Entry(point("post_quant_conv", latent, latent)))
    low.append(Entry(Conv(name="conv_in", inner=latent, outer=widths[0])))
    low += middle(widths[0])
    high: list[Part] = []
    for level, width in enumerate(widths):
        inner = widths[max(0, level - 1)]
        part = low if level < 2 else high
        part += blocks(f"{level}", (inner, width), config.layers_per_block + 1)
        if level < len(config.decoder_time):
            up = _up(f"{level}.up", width, time=config.decoder_time[level])
            (low if level < 1 else high).append(up)
    high.append(Exit(Conv(name="conv_out", inner=widths[-1], outer=config.out_channels)))
    return low, high


def _down(name: str, width: int, *, time: bool) -> Entry:
    taps, stride = (TAPS, 2) if time else (1, 1)
    shape = {"taps": taps, "time_stride": stride, "space_stride": 2}
    return Entry(Conv(name=name, inner=width, outer=width, **shape))


def _up(name: str, width: int, *, time: bool) -> Up:
    times = 2 if time else 1
    conv = Conv(name=name, inner=width, outer=width)
    return Up(point(f"{name}.widen", width, 4 * times * width), conv, times)
