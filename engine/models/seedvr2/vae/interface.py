"""Interface that both variants of the VAE share."""

from __future__ import annotations

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.video_vae.slicing import SlicedVae


class SeedVr2VaeVariant(SlicedVae):
    """A variant of the SeedVR2 VAE.

    Attributes:
        config: Sizes of the model.
    """

    config: VaeConfig
