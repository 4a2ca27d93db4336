"""Interface that both variants of the VAE share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.video_vae.slicing import SlicedVae

if TYPE_CHECKING:
    from engine.models.seedvr2.vae.fast import FastVae


class SeedVr2VaeVariant(SlicedVae):
    """A variant of the SeedVR2 VAE.

    Attributes:
        config: Sizes of the model.
    """

    config: VaeConfig

    def in_parts(self) -> FastVae:
        """The variant whose parts can be given tiles.

        Raises:
            ValueError: This variant has none; an error in the caller.
        """
        raise ValueError("only the fast variant works in tiles")
