"""Configuration of a SeedVR2 VAE, also inferred from the shapes of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.core.errors import UnknownKeys
from engine.files.formats.keymap import KeyMap
from engine.models.shapes import Shapes, agreed, count, number, size, stated_in

VAE_KEYS = KeyMap()  # names in the published files are our module paths


@dataclass(frozen=True, slots=True, kw_only=True)
class VaeConfig:
    """Sizes of one VAE; the defaults are those of the published one.

    Attributes:
        in_channels: Colours of a frame that is encoded.
        out_channels: Colours of a frame that was decoded.
        latent_channels: Channels of the latent; the encoder gives twice as many (mean, logvar).
        block_out_channels: Width of each level of the encoder; the decoder runs through them
            backwards.
        layers_per_block: Residual blocks of an encoder level; a decoder level has one more.
        norm_groups: Groups of every GroupNorm.
        norm_eps: Added to the variance in every GroupNorm.
        encoder_time: For each level with a downsampler: does it halve time too?
        decoder_time: For each level with an upsampler: does it double time too?
        quant_conv: A 1x1x1 convolution follows the encoder.
        post_quant_conv: A 1x1x1 convolution comes before the decoder.
        slice_frames: Frames of a slice after the first one; the first has one more.
        scaling_factor: Factor of the transformer's latents; the VAE itself takes
            and gives unscaled ones.
    """

    in_channels: int = 3
    out_channels: int = 3
    latent_channels: int = 16
    block_out_channels: tuple[int, ...] = (128, 256, 512, 512)
    layers_per_block: int = 2
    norm_groups: int = 32
    norm_eps: float = 1e-6
    encoder_time: tuple[bool, ...] = (False, True, True)
    decoder_time: tuple[bool, ...] = (True, True, False)
    quant_conv: bool = False
    post_quant_conv: bool = False
    slice_frames: int = 4
    scaling_factor: float = 0.9152

    def __post_init__(self) -> None:
        steps = len(self.block_out_channels) - 1
        if {len(self.encoder_time), len(self.decoder_time)} != {steps}:
            raise ValueError(f"{steps + 1} levels need {steps} entries of encoder and decoder time")
        if sum(self.encoder_time) != sum(self.decoder_time):
            raise ValueError("encoder and decoder change time by different factors")
        if any(width % self.norm_groups for width in self.block_out_channels):
            raise ValueError(f"{self.norm_groups} groups do not divide {self.block_out_channels}")

    @property
    def upscale(self) -> int:
        """Decoded pictures are as large as encoded ones."""
        return 1

    @property
    def spatial_factor(self) -> int:
        """Pixels per side of a latent position."""
        return 1 << len(self.encoder_time)

    @property
    def temporal_factor(self) -> int:
        """Frames per latent step, the first step apart, which is one frame."""
        return 1 << sum(self.encoder_time)

    @property
    def slice_latents(self) -> int:
        """Latent steps of a slice after the first one; the first has one more."""
        return max(1, self.slice_frames // self.temporal_factor)

    def narrower(self, parts: int) -> VaeConfig:
        """Configuration with a part of the channels; a group keeps one at least."""
        widths = tuple(width // parts for width in self.block_out_channels)
        groups = min(self.norm_groups, *widths)
        return replace(self, block_out_channels=widths, norm_groups=groups)


VAE = VaeConfig()
"""The published one: ema_vae_fp16.safetensors, 250 648 227 parameters."""


def infer_vae_config(shapes: Shapes, metadata: Mapping[str, str]) -> VaeConfig:
    """The configuration that fits the tensors of a file.

    One tensor that is missing or misshapen hardly matters here: the loader names it afterwards.

    Args:
        shapes: Name and shape of every tensor.
        metadata: Metadata of the file. Its entry "config" (JSON; the sizes themselves or under
            "constructor") has what shapes do not show: groups of the norms and frames of a slice.

    Raises:
        UnknownKeys: The names are not those of a SeedVR2 VAE, or its sizes are impossible.
    """
    levels = count(shapes, "encoder.down_blocks.{}.") or count(shapes, "decoder.up_blocks.{}.")
    if not levels or not any(name.startswith("decoder.") for name in shapes):
        raise UnknownKeys("not-seedvr2-vae", tensors=", ".join(sorted(shapes)[:8]))
    stated = stated_in(metadata)
    encoder_time, decoder_time = _times(shapes, levels)
    try:
        return VaeConfig(
            in_channels=size(shapes, "encoder.conv_in.weight", 1, VAE.in_channels),
            out_channels=size(shapes, "decoder.conv_out.weight", 0, VAE.out_channels),
            latent_channels=_latent_channels(shapes),
            block_out_channels=tuple(_width(shapes, level, levels) for level in range(levels)),
            layers_per_block=_layers(shapes, levels),
            norm_groups=number(stated, "norm_num_groups", VAE.norm_groups),
            encoder_time=encoder_time,
            decoder_time=decoder_time,
            quant_conv="quant_conv.weight" in shapes,
            post_quant_conv="post_quant_conv.weight" in shapes,
            slice_frames=number(stated, "slicing_sample_min_size", VAE.slice_frames),
        )
    except ValueError as err:
        raise UnknownKeys("seedvr2-vae-sizes", reason=str(err)) from err


def _latent_channels(shapes: Shapes) -> int:
    sizes = [
        size(shapes, "decoder.conv_in.weight", 1, 0),
        size(shapes, "encoder.conv_out.weight", 0, 0) // 2,
        size(shapes, "encoder.conv_out.bias", 0, 0) // 2,
    ]
    return agreed(sizes, VAE.latent_channels)


def _width(shapes: Shapes, level: int, levels: int) -> int:
    blocks = (f"encoder.down_blocks.{level}", f"decoder.up_blocks.{levels - 1 - level}")
    names = ("conv1.weight", "norm2.weight", "conv2.weight")
    sizes = [size(shapes, f"{block}.resnets.0.{name}", 0, 0) for block in blocks for name in names]
    return agreed(sizes, VAE.norm_groups)


def _layers(shapes: Shapes, levels: int) -> int:
    encoder = [count(shapes, f"encoder.down_blocks.{i}.resnets.{{}}.") for i in range(levels)]
    decoder = [count(shapes, f"decoder.up_blocks.{i}.resnets.{{}}.") - 1 for i in range(levels)]
    return agreed(encoder + decoder, VAE.layers_per_block)


def _halves_time(shapes: Shapes, level: int) -> bool | None:
    """The kernel of a downsampler spans three frames where it halves time, one elsewhere."""
    span = size(shapes, f"encoder.down_blocks.{level}.downsamplers.0.conv.weight", 2, 0)
    return {3: True, 1: False}.get(span)


def _doubles_time(shapes: Shapes, level: int) -> bool | None:
    """An upsampler makes 8 channels of each where it doubles time, 4 elsewhere."""
    name = f"decoder.up_blocks.{level}.upsamplers.0.upscale_conv.weight"
    outer, inner = size(shapes, name, 0, 0), size(shapes, name, 1, 1)
    return {8 * inner: True, 4 * inner: False}.get(outer)


def _times(shapes: Shapes, levels: int) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Levels of encoder and decoder that change time; a missing one is taken from the other."""
    encoder = [_halves_time(shapes, level) for level in range(levels - 1)]
    decoder = [_doubles_time(shapes, level) for level in range(levels - 1)]
    mirrored = [bool(time) for time in reversed(decoder)]
    known = [
        own if own is not None else other for own, other in zip(encoder, mirrored, strict=True)
    ]
    back = [
        own if own is not None else other
        for own, other in zip(decoder, reversed(known), strict=True)
    ]
    return tuple(known), tuple(back)
