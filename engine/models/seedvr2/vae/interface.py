"""What both variants of the VAE promise alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.video_vae.slicing import SlicedVae

if TYPE_CHECKING:
    from engine.models.seedvr2.vae.fast import FastVae


class SeedVr2VaeVariant(SlicedVae):
    """A form of the SeedVR2 VAE; its configuration says what it takes.

    Attributes:
        config: Sizes of the model.
    """

    config: VaeConfig

    def in_parts(self) -> FastVae:
        """The form whose parts can be given tiles.

        Raises:
            ValueError: This form has none; an error in the caller.
        """
        raise ValueError("only the fast variant works in tiles")
