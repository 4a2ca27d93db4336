"""What both forms of the Wan VAEs promise alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.models.contracts import Limits
from engine.models.slicing import SlicedVae

if TYPE_CHECKING:
    from engine.models.wan.config import WanConfig


class WanForm(SlicedVae):
    """A form of a Wan VAE; its configuration says what it takes.

    Latents are raw: neither mean nor deviation of the published statistics is taken off. Decoded
    pictures are finished: put together from their patches, and `config.upscale` times as large.

    Attributes:
        config: Sizes of the model.
    """

    config: WanConfig

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
