"""Configuration of a Wan VAE, also inferred from the shapes of its tensors. No torch."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from engine.core.errors import UnknownKeys, WrongModel
from engine.models.shapes import Shapes, agreed, size

Layout = Literal["2.1", "2.2"]

_NESTED = r"(down|up)samples\.\d+\.(down|up)samples\."  # a stage of Wan 2.2
_FACTORS = {3: 1, 12: 2}  # channels of the head -> how much larger the pictures are


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One level of the encoder or decoder: residual blocks, then perhaps a resampler.

    Attributes:
        inner: Channels of its input.
        outer: Channels after its residual blocks.
        blocks: Number of its residual blocks.
        result: Channels of its result, after the resampler.
        space: The resampler halves (encoder) or doubles (decoder) height and width.
        time: It does so with the frames too.
    """

    inner: int
    outer: int
    blocks: int
    result: int
    space: bool
    time: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WanConfig:
    """Sizes of one Wan VAE.

    Attributes:
        layout: Wan 2.1: one flat list of parts. Wan 2.2: a list of stages, each with a shortcut
            around it.
        dim: Width of the encoder's first stage.
        dec_dim: Width of the decoder's last stage.
        latent_channels: Channels of the latent; the encoder gives twice as many (mean, logvar).
        multipliers: Width of each stage of the encoder, in units of `dim`; the decoder runs
            through them backwards.
        residual_blocks: Number in an encoder stage; a decoder stage has one more.
        time_down: For each stage of the encoder with a downsampler: does it halve time too? The
            decoder runs through them backwards.
        in_channels: Colours of a frame that is encoded.
        out_channels: Channels of a frame that was decoded: 3, or 12 that are shuffled into a
            picture of 3 colours and twice the size.
        patch: Pixels per side that are folded into channels before the encoder and unfolded
            after the decoder.
    """

    layout: Layout
    dim: int
    dec_dim: int
    latent_channels: int
    multipliers: tuple[int, ...] = (1, 2, 4, 4)
    residual_blocks: int = 2
    time_down: tuple[bool, ...] = (False, True, True)
    in_channels: int = 3
    out_channels: int = 3
    patch: int = 1

    def __post_init__(self) -> None:
        if len(self.time_down) != len(self.multipliers) - 1:
            raise ValueError(f"{len(self.multipliers)} stages, {self.time_down} between them")
        if self.out_channels not in _FACTORS:
            raise ValueError(f"pictures of {self.out_channels} channels")
        if self.layout == "2.1" and any(stage.inner < 1 for stage in self.decoder_stages):
            raise ValueError(f"a decoder of width {self.dec_dim} cannot be halved")

    @property
    def spatial_factor(self) -> int:
        """Pixels per side of a latent position."""
        return self.patch << len(self.time_down)

    @property
    def temporal_factor(self) -> int:
        """Frames per latent step, the first step apart, which is one frame."""
        return 1 << sum(self.time_down)

    @property
    def upscale(self) -> int:
        """Factor of decoded frames over encoded ones, per side."""
        return _FACTORS[self.out_channels]

    @property
    def slice_latents(self) -> int:
        """Latent steps of a slice after the first one."""
        return 1

    def narrower(self, parts: int) -> WanConfig:
        """Configuration with a part of the channels."""
        return replace(self, dim=self.dim // parts, dec_dim=self.dec_dim // parts)

    @property
    def has_stage_shortcuts(self) -> bool:
        """Whether the input of a stage is added to its result."""
        return self.layout == "2.2"

    @property
    def encoder_stages(self) -> tuple[Stage, ...]:
        """Stages from full size down to latent positions."""
        widths = [self.dim * multiplier for multiplier in (1, *self.multipliers)]
        times = (*self.time_down, None)
        return tuple(
            Stage(
                inner=widths[index],
                outer=widths[index + 1],
                blocks=self.residual_blocks,
                result=widths[index + 1],
                space=time is not None,
                time=bool(time),
            )
            for index, time in enumerate(times)
        )

    @property
    def decoder_stages(self) -> tuple[Stage, ...]:
        """Stages from latent positions to full size; upsamplers of Wan 2.1 halve the channels."""
        widths = [self.dec_dim * multiplier for multiplier in reversed(self.multipliers)]
        shrink = 2 if self.layout == "2.1" else 1
        results = [width // shrink for width in widths[:-1]] + widths[-1:]
        times = (*reversed(self.time_down), None)
        return tuple(
            Stage(
                inner=results[index - 1] if index else widths[0],
                outer=widths[index],
                blocks=self.residual_blocks + 1,
                result=results[index],
                space=time is not None,
                time=bool(time),
            )
            for index, time in enumerate(times)
        )


WAN21 = WanConfig(layout="2.1", dim=96, dec_dim=96, latent_channels=16)
"""Wan2.1_VAE.pth, 126 892 531 parameters."""

WAN22 = WanConfig(layout="2.2", dim=160, dec_dim=256, latent_channels=48, patch=2)
"""Wan2.2_VAE.pth, 704 688 668 parameters."""

WAN2X = WanConfig(layout="2.1", dim=96, dec_dim=96, latent_channels=16, out_channels=12)
"""Wan2.1_VAE_upscale2x_imageonly_real_v1.safetensors, 126 915 868 parameters."""


def infer_wan_config(shapes: Shapes) -> WanConfig:
    """The configuration that fits the tensors of a file.

    One tensor that is missing or misshapen hardly matters here: the loader names it afterwards.
    Number and factors of the stages are those of every published Wan VAE.

    Args:
        shapes: Shape of every tensor by its original Wan name; see `wan_keys` for others.

    Raises:
        UnknownKeys: The names are not those of a Wan VAE, or its sizes are impossible.
        WrongModel: It works on pictures with other channels than red, green and blue.
    """
    if not any(name.startswith(("encoder.downsamples.", "decoder.upsamples.")) for name in shapes):
        raise UnknownKeys("not-wan", tensors=", ".join(sorted(shapes)[:8]))
    usual = WAN22 if any(re.search(_NESTED, name) for name in shapes) else WAN21
    try:
        return replace(
            usual,
            dim=_encoder_width(shapes, usual.dim),
            dec_dim=_decoder_width(shapes, usual.dec_dim),
            latent_channels=_latent_channels(shapes, usual.latent_channels),
            out_channels=_out_channels(shapes, usual),
        )
    except ValueError as err:
        raise UnknownKeys("wan-sizes", reason=str(err)) from err


def _out_channels(shapes: Shapes, usual: WanConfig) -> int:
    """Channels of decoded frames; refuses variants with transparency, and all others."""
    fold = usual.patch**2
    reads = size(shapes, "encoder.conv1.weight", 1, 3 * fold)
    head = ("decoder.head.2.weight", "decoder.head.2.bias")
    writes = agreed([size(shapes, name, 0, 0) for name in head], 3 * fold)
    known = {1: tuple(_FACTORS), 2: (3 * fold,)}[usual.patch]
    if reads == 3 * fold and writes in known:
        return writes // fold
    raise WrongModel(
        "wan-channels", reads=reads, writes=writes, folded=3 * fold, known=tuple(map(str, known))
    )


def _encoder_width(shapes: Shapes, otherwise: int) -> int:
    names = ["encoder.conv1.weight", "encoder.conv1.bias", *_in_block("encoder.downsamples.0.")]
    names += _in_block("encoder.downsamples.0.downsamples.0.")
    return agreed([size(shapes, name, 0, 0) for name in names], otherwise)


def _decoder_width(shapes: Shapes, otherwise: int) -> int:
    """Number of the last block: in 2.1 the parts of all stages are counted through."""
    names = ["decoder.head.0.gamma", *_in_block("decoder.upsamples.14.")]
    names += _in_block("decoder.upsamples.3.upsamples.2.")
    return agreed([size(shapes, name, 0, 0) for name in names], otherwise)


def _in_block(block: str) -> list[str]:
    """Tensors whose length is the block's width."""
    return [f"{block}residual.{part}" for part in ("0.gamma", "2.bias", "6.bias")]


def _latent_channels(shapes: Shapes, otherwise: int) -> int:
    sizes = [
        size(shapes, "conv2.weight", 0, 0),
        size(shapes, "conv2.bias", 0, 0),
        size(shapes, "decoder.conv1.weight", 1, 0),
        size(shapes, "conv1.bias", 0, 0) // 2,
        size(shapes, "encoder.head.2.bias", 0, 0) // 2,
    ]
    return agreed(sizes, otherwise)
