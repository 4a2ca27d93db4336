"""Layers of video VAEs as data: what their fast variants run, without tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

TAPS = 3  # in time, of the usual convolution
SIDE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv:
    """A causal convolution; `name` is what its carry is filed under."""

    name: str
    inner: int
    outer: int
    taps: int = TAPS  # in time
    side: int = SIDE  # in height and width
    time_stride: int = 1
    space_stride: int = 1

    @property
    def history(self) -> int:
        """Frames that it keeps of each slice."""
        return max(0, self.taps - self.time_stride)

    @property
    def pad(self) -> int:
        """Lines of zeros to the right and below."""
        return self.space_stride - 1

    @property
    def kernel(self) -> int:
        """Weights of one tap in time."""
        return self.inner * self.outer * self.side**2


@dataclass(frozen=True, slots=True)
class Entry:
    """A convolution of its own."""

    conv: Conv

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        """All that it has."""
        return (self.conv,)

    @property
    def norm_widths(self) -> tuple[int, ...]:
        """Channels of each norm."""
        return ()


@dataclass(frozen=True, slots=True)
class Exit:
    """Norm, SiLU and the last convolution."""

    conv: Conv

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        """All that it has."""
        return (self.conv,)

    @property
    def norm_widths(self) -> tuple[int, ...]:
        """Channels of each norm."""
        return (self.conv.inner,)


@dataclass(frozen=True, slots=True)
class Block:
    """A residual block."""

    first: Conv
    second: Conv
    shortcut: Conv | None

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        """All that it has."""
        both = (self.first, self.second)
        return both if self.shortcut is None else (*both, self.shortcut)

    @property
    def norm_widths(self) -> tuple[int, ...]:
        """Channels of each norm."""
        return (self.first.inner, self.second.inner)


@dataclass(frozen=True, slots=True)
class Attention:
    """Layer that works on each frame by itself."""

    width: int

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        """None that looks at neighbours or at other frames."""
        return ()

    @property
    def norm_widths(self) -> tuple[int, ...]:
        """Channels of each norm."""
        return (self.width,)


def point(name: str, inner: int, outer: int) -> Conv:
    """A 1x1x1 convolution."""
    return Conv(name=name, inner=inner, outer=outer, taps=1, side=1)


def blocks(name: str, widths: tuple[int, int], count: int) -> Iterator[Block]:
    """Residual blocks, of which the first one changes the width."""
    inner, outer = widths
    for index in range(count):
        path = f"{name}.{index}"
        first = Conv(name=f"{path}.conv1", inner=inner, outer=outer)
        second = Conv(name=f"{path}.conv2", inner=outer, outer=outer)
        shortcut = point(f"{path}.shortcut", inner, outer) if inner != outer else None
        yield Block(first, second, shortcut)
        inner = outer


def middle(width: int) -> list[Block | Attention]:
    """Attention between two residual blocks."""
    before, after = blocks("middle", (width, width), 2)
    return [before, Attention(width), after]
