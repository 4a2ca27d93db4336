"""Models that run, as the pipeline sees them: frames one by one, or shots as a whole. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.core.geometry import Box, Size

if TYPE_CHECKING:
    from torch import Tensor


class FrameUpscaler(Protocol):
    """A model that enlarges frames, each by itself or next to its neighbours, all in one call."""

    @property
    def scale(self) -> int:
        """Factor of both sides."""
        ...

    @property
    def halo(self) -> int:
        """Input pixels around a pixel that its result depends on: tiles sharing them are exact."""
        ...

    def upscale(self, frames: Tensor, *near: Tensor) -> Tensor:
        """Enlarge frames.

        Args:
            frames: [T, 3, h, w] float32, RGB, nominally 0 to 1.
            near: Frames before each and frames after each, alike, for a plan that sees neighbours;
                the frame itself where its shot has none.

        Returns:
            [T, 3, scale*h, scale*w] float32 on the same device, not clipped.

        Raises:
            torch.OutOfMemoryError: The device refused; the caller takes smaller tiles.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedTile:
    """The last of some decoded frames of one tile, for the preview.

    Attributes:
        frame: Number of its last frame.
        index: Index of the tile.
        tiles: Number of tiles of a frame.
        box: Its part of the padded frame.
        picture: Its last frame [3, h, w], in [-1, 1].
    """

    frame: int
    index: int
    tiles: int
    box: Box
    picture: Tensor


Watch = Callable[[DecodedTile], None]

Advance = Callable[[str, float], None]
"""Called between pieces of long work with a stage of the plan and the frames, or the share of one,
that went through it since the last call. It may wait, or raise to stop."""


def no_advance(stage: str, frames: float) -> None:
    """Does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Some frames of a shot.

    Attributes:
        first: Number of the first one, from the start of the shot or of the job.
        frames: [n, 3, H, W] float32, nominally [-1, 1], padded.
        ends_block: The next ones belong to another block of latents; blocks depend on the shot
            alone, not on where a job was interrupted.
    """

    first: int
    frames: Tensor
    ends_block: bool = True


class RunningShot(Protocol):
    """A shot that is being fed; numbers of frames are those of the job."""

    def push(self, frames: Tensor, *, last: bool) -> Iterator[Restored]:
        """Take the next frames of the source.

        Args:
            frames: [T, 3, h, w] float32, RGB, nominally 0 to 1; T = slice_frames, one more in
                the first slice, and any number in the last one.
            last: The shot ends with them.

        Yields:
            Final frames, in order.

        Raises:
            NumericOverflow: The planner takes a wider format.
            torch.OutOfMemoryError: The caller takes a smaller plan.
        """
        ...


class ShotModel(Protocol):
    """A model that takes a shot as a whole, streamed: its frames depend on those before."""

    @property
    def slice_frames(self) -> int:
        """Frames that shots are fed in, the first slice apart, which has one more."""
        ...

    @property
    def is_pooled(self) -> bool:
        """Whether frames of a block are finished together."""
        ...

    @property
    def canvas(self) -> Size:
        """Size of the finished pictures; tiles lie on it, padding apart."""
        ...

    def report_to(self, advance: Advance) -> None:
        """Call something between pieces of long work."""
        ...

    def first_needed(self, shot: int, wanted: int) -> int:
        """The frame to begin reading at, so that `wanted` and all after it are exact.

        Args:
            shot: First frame of the shot, counted from the first frame of the job.
            wanted: A frame of it, counted likewise.
        """
        ...

    def shot(self, shot: int, wanted: int, watch: Watch, stop: int | None = None) -> RunningShot:
        """Begin a shot, or continue it at `wanted`; frames are fed from `first_needed` on.

        Args:
            shot: First frame of the shot, counted from the first frame of the job.
            wanted: A frame of it, counted likewise.
            watch: Called with every decoded tile.
            stop: First frame that is not wanted, after `wanted`; None for all. What only later
                ones need is not computed where that takes time.
        """
        ...

    def finished(self, frames: Tensor, source: Tensor) -> Tensor:
        """Restored frames as pictures.

        Args:
            frames: [n, 3, H, W] of a Restored.
            source: Frames of the source [n, 3, h, w], nominally 0 to 1.

        Returns:
            [n, 3, canvas.height, canvas.width], nominally 0 to 1.
        """
        ...

    def close(self) -> None:
        """Give back what it holds; it is of no use afterwards."""
        ...
