"""The model itself: loads torch."""

from __future__ import annotations

from torch import Tensor

from tests.fake_family.family import FACTOR


class NearestUpscaler:
    """Repeats pixels; see `engine.models.upscalers.FrameUpscaler`."""

    scale = FACTOR
    halo = 0

    def upscale(self, frames: Tensor) -> Tensor:
        """Enlarge frames [T, 3, h, w] to [T, 3, 2h, 2w]."""
        return frames.repeat_interleave(FACTOR, -1).repeat_interleave(FACTOR, -2)
