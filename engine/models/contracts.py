"""What every model promises, so that pipeline and planner need not know which one it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class FrameUpscaler(Protocol):
    """A model that enlarges frames one by one, all in one call."""

    @property
    def scale(self) -> int:
        """Factor of both sides."""
        ...

    @property
    def halo(self) -> int:
        """Input pixels around a pixel that its result depends on: tiles sharing them are exact."""
        ...

    def upscale(self, frames: Tensor) -> Tensor:
        """Enlarge frames.

        Args:
            frames: [T, 3, h, w] float32, RGB, nominally 0 to 1.

        Returns:
            [T, 3, scale*h, scale*w] float32 on the same device, not clipped.

        Raises:
            torch.OutOfMemoryError: The device refused; the caller takes smaller tiles.
        """
        ...
