"""Interface that both variants of the Wan VAEs share."""

from __future__ import annotations

from engine.models.video_vae.slicing import SlicedVae
from engine.models.wan.vae.config import WanConfig


class WanVaeVariant(SlicedVae):
    """A variant of a Wan VAE.

    Latents are raw, not normalised by the published statistics. Decoded pictures are finished:
    assembled from their patches, and `config.upscale` times as large.

    Attributes:
        config: Sizes of the model.
    """

    config: WanConfig
