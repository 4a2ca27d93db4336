"""Sizes, boxes and frame spans: integers in pixels and frames, and their arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """Width and height in pixels, in this order; shapes of tensors have the reverse order."""

    width: int
    height: int

    @property
    def pixels(self) -> int:
        """Number of pixels."""
        return self.width * self.height

    @property
    def is_empty(self) -> bool:
        """True when one side is zero or less."""
        return self.width <= 0 or self.height <= 0

    def scaled(self, factor: int) -> Size:
        """Size times a whole factor."""
        return Size(self.width * factor, self.height * factor)

    def transposed(self) -> Size:
        """Width and height exchanged, as a rotation by 90 degrees does."""
        return Size(self.height, self.width)

    def within(self, limit: Size) -> Size:
        """The largest size of this shape that fits into `limit`, never larger than this one."""
        factor = min(limit.width / self.width, limit.height / self.height, 1.0)
        return Size(max(1, round(self.width * factor)), max(1, round(self.height * factor)))

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle: left and top edge, width and height, all in pixels."""

    x: int
    y: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """First column outside."""
        return self.x + self.width

    @property
    def bottom(self) -> int:
        """First row outside."""
        return self.y + self.height

    @property
    def size(self) -> Size:
        """Width and height."""
        return Size(self.width, self.height)

    def scaled(self, factor: int) -> Box:
        """Box in a picture that is `factor` times as large."""
        return Box(self.x * factor, self.y * factor, self.width * factor, self.height * factor)


@dataclass(frozen=True, slots=True)
class Margins:
    """Pixels at the sides of an image that are no part of what is shown."""

    left: int = 0
    top: int = 0
    right: int = 0
    bottom: int = 0

    def inside(self, size: Size) -> Size:
        """A size without them."""
        return Size(size.width - self.left - self.right, size.height - self.top - self.bottom)

    def around(self, size: Size) -> Size:
        """A size with them."""
        return Size(size.width + self.left + self.right, size.height + self.top + self.bottom)


@dataclass(frozen=True, slots=True)
class FrameSpan:
    """Frames `start` (inside) to `stop` (outside), counted from the first frame of a job."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))

    def __contains__(self, frame: int) -> bool:
        return self.start <= frame < self.stop


def spread_indices(count: int, chosen: int) -> frozenset[int]:
    """Indices of `chosen` of `count` positions, spread evenly; all where there are fewer."""
    chosen = min(count, chosen)
    return frozenset((2 * index + 1) * count // (2 * chosen) for index in range(chosen))
