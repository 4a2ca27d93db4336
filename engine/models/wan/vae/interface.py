"""Interface that both variants of the Wan VAEs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.models.video_vae.slicing import SlicedVae

if TYPE_CHECKING:
    from engine.models.wan.vae.config import WanConfig
    from engine.models.wan.vae.fast import FastWanVae


class WanVaeVariant(SlicedVae):
    """A variant of a Wan VAE.

    Latents are raw, not normalised by the published statistics. Decoded pictures are finished:
    assembled from their patches, and `config.upscale` times as large.

    Attributes:
        config: Sizes of the model.
    """

    config: WanConfig

    def in_parts(self) -> FastWanVae:
        """The variant whose parts can be given tiles.

        Raises:
            ValueError: This variant has none; an error in the caller.
        """
        raise ValueError("only the fast variant works in tiles")
