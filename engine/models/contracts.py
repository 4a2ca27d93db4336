"""What every model promises, so that pipeline and planner need not know which one it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from engine.ops.conv3d import Carry


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a model can take.

    Attributes:
        multiple_of: Both sides of a frame are a multiple of this many pixels.
        temporal_step: A clip has 1 + n * temporal_step frames, n >= 0.
        dtypes: Names of the torch types it computes in, the most exact first.
    """

    multiple_of: int
    temporal_step: int
    dtypes: tuple[str, ...]


class VideoVae(Protocol):
    """A model that turns clips into latents and back, at once or slice by slice.

    Latents are unscaled: what the encoder gives is what the decoder takes.
    """

    @property
    def limits(self) -> Limits:
        """Sizes, lengths and types it can take."""
        ...

    def moments(self, frames: Tensor) -> Tensor:
        """Encode a clip [B, 3, T, H, W] in [-1, 1] to mean and log-variance.

        Returns:
            [B, 2*L, t, h, w]: L channels of mean, then L of log-variance within [-30, 20].
        """
        ...

    def encode(self, frames: Tensor, generator: Generator | None = None) -> Tensor:
        """Encode a clip to its latent [B, L, t, h, w]: the mean, or with `generator` a sample."""
        ...

    def decode(self, latent: Tensor) -> Tensor:
        """Decode a latent [B, L, t, h, w] to frames [B, 3, T, H, W], not clipped."""
        ...

    def encode_slice(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Moments of one slice, and the carry for the next; `Carry()` starts a clip."""
        ...

    def decode_slice(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Frames of one slice, and the carry for the next; `Carry()` starts a clip."""
        ...

    def enable_slicing(self, frames: int | None = None) -> None:
        """Work through a clip in slices of so many frames: less memory, the same result."""
        ...

    def disable_slicing(self) -> None:
        """Take every clip at once."""
        ...
