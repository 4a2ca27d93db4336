"""What both forms of the VAE promise alike."""

from __future__ import annotations

from engine.models.contracts import Limits
from engine.models.seedvr2.config import VaeConfig
from engine.models.slicing import SlicedVae


class VaeForm(SlicedVae):
    """A form of the SeedVR2 VAE; its configuration says what it takes.

    Attributes:
        config: Sizes of the model.
    """

    config: VaeConfig

    @property
    def limits(self) -> Limits:
        """Sizes, lengths and types it can take."""
        return Limits(
            multiple_of=self.config.spatial_factor,
            temporal_step=self.config.temporal_factor,
            dtypes=("float64", "float32", "float16", "bfloat16"),
        )

    @property
    def usual_slice_frames(self) -> int:
        """Frames of a slice that the model was published with."""
        return self.config.slice_latents * self.config.temporal_factor
