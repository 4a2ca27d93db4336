"""What is asked of a video VAE, and what it takes in operations; the same for every family."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.core.geometry import Size
from engine.settings.optimisations import VaeSwitches


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of one call."""

    convolutions: int
    attention: int  # the mid block's projections and products

    @property
    def total(self) -> int:
        """All of them."""
        return self.convolutions + self.attention

    def __add__(self, other: Flops) -> Flops:
        return Flops(self.convolutions + other.convolutions, self.attention + other.attention)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is asked of the VAE.

    Attributes:
        frames: Of the clip, 1 + n * temporal_factor.
        size: Of a frame that is or could be encoded, in px, a multiple of the spatial factor.
        switches: Those that save operations are counted; all off is the published data flow.
        slice_frames: None takes the clip at once. Slices cost the same; they only leave
            `temporal_winograd` fewer pairs of frames. (Convolutions as sums in float32 do a
            clip's first slice without it.)
    """

    frames: int
    size: Size
    switches: VaeSwitches
    slice_frames: int | None = None


def slices(steps: int, size: int | None) -> Iterator[tuple[bool, int]]:
    """Whether it is the first, and how many steps it has, of each slice of a clip."""
    head = steps if size is None else min(steps, 1 + size)
    yield True, head
    for start in range(head, steps, size or 1):
        yield False, min(size or 1, steps - start)
