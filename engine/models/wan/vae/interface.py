"""What both variants of the Wan VAEs promise alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.models.video_vae.slicing import SlicedVae

if TYPE_CHECKING:
    from engine.models.wan.vae.config import WanConfig
    from engine.models.wan.vae.fast import FastWanVae


class WanVaeVariant(SlicedVae):
    """A form of a Wan VAE; its configuration says what it takes.

    Latents are raw: neither mean nor deviation of the published statistics is taken off. Decoded
    pictures are finished: put together from their patches, and `config.upscale` times as large.

    Attributes:
        config: Sizes of the model.
    """

    config: WanConfig

    def in_parts(self) -> FastWanVae:
        """The form whose parts can be given tiles.

        Raises:
            ValueError: This form has none; an error in the caller.
        """
        raise ValueError("only the fast variant works in tiles")
