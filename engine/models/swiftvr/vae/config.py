"""Sizes of the autoencoder of SwiftVR, also inferred from the shapes of tensors. No torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from engine.models.shapes import Shapes, agreed, size

# Places of the memory blocks among the layers, three of a width each.
ENCODER_BLOCKS = (4, 5, 6, 9, 10, 11, 14, 15, 16)
DECODER_BLOCKS = ((3, 4, 5), (9, 10, 11), (15, 16, 17))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaeConfig:
    """Sizes of one autoencoder; the defaults are those of the published one.

    Attributes:
        encoder_width: Channels of all layers of the encoder.
        decoder_widths: Channels of the decoder, from a latent's positions to half the size of a
            frame.
        latent_channels: Channels of the latent, which has no variance.
        spatial_factor: Pixels per side of a latent position.
        temporal_factor: Frames of a latent.
        slice_latents: Latents of a slice.
    """

    encoder_width: int = 64
    decoder_widths: tuple[int, int, int, int] = (512, 256, 128, 64)
    latent_channels: int = 48

    spatial_factor: ClassVar[int] = 16
    temporal_factor: ClassVar[int] = 4
    slice_latents: ClassVar[int] = 1


REAE = ReaeConfig()
"""reae.safetensors, 40 946 364 parameters."""


def infer_reae_config(shapes: Shapes) -> ReaeConfig:
    """The configuration that fits the tensors of a file.

    One tensor that is missing or misshapen hardly matters here: the loader names it afterwards.

    Args:
        shapes: Shape of every tensor by its published name.
    """
    inner = [f"encoder.{block}.conv.{conv}" for block in ENCODER_BLOCKS for conv in (0, 2, 4)]
    wide = [
        [f"decoder.{block}.conv.{conv}" for block in level for conv in (0, 2, 4)]
        for level in DECODER_BLOCKS
    ]
    last = [size(shapes, name, 0, 0) for name in ("decoder.20.weight", "decoder.22.weight")]
    last.append(size(shapes, "decoder.22.weight", 1, 0))
    latent = [size(shapes, f"encoder.17.{leaf}", 0, 0) for leaf in ("weight", "bias")]
    latent.append(size(shapes, "decoder.1.weight", 1, 0))
    first, second, third = (
        agreed(_biases(shapes, names), usual)
        for names, usual in zip(wide, REAE.decoder_widths, strict=False)
    )
    return ReaeConfig(
        encoder_width=agreed(_biases(shapes, ["encoder.0", *inner]), REAE.encoder_width),
        decoder_widths=(first, second, third, agreed(last[::2], REAE.decoder_widths[-1])),
        latent_channels=agreed(latent, REAE.latent_channels),
    )


def _biases(shapes: Shapes, layers: Iterable[str]) -> list[int]:
    """Lengths of the biases of some layers."""
    return [size(shapes, f"{layer}.bias", 0, 0) for layer in layers]
