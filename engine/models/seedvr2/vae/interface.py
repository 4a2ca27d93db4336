"""What both forms of the VAE promise alike."""

from __future__ import annotations

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.video_vae.slicing import SlicedVae


class VaeForm(SlicedVae):
    """A form of the SeedVR2 VAE; its configuration says what it takes.

    Attributes:
        config: Sizes of the model.
    """

    config: VaeConfig
