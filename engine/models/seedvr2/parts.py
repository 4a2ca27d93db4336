"""What the VAE is made of, as data: the list that the fast form walks, without a single tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.models.seedvr2.config import VaeConfig

_TAPS = 3  # in time, of the usual convolution
_SIDE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv:
    """A causal convolution; `name` is what its carry is filed under."""

    name: str
    inner: int
    outer: int
    taps: int = _TAPS  # in time
    side: int = _SIDE  # in height and width
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
        """Numbers of one tap in time."""
        return self.inner * self.outer * self.side**2


@dataclass(frozen=True, slots=True)
class Entry:
    """A convolution of its own."""

    conv: Conv


@dataclass(frozen=True, slots=True)
class Exit:
    """Norm, SiLU and the last convolution."""

    conv: Conv


@dataclass(frozen=True, slots=True)
class Block:
    """A residual block."""

    first: Conv
    second: Conv
    shortcut: Conv | None


@dataclass(frozen=True, slots=True)
class Attention:
    """Of each frame by itself."""

    width: int


@dataclass(frozen=True, slots=True)
class Up:
    """An upsampler: what it is when unfolded."""

    widen: Conv
    conv: Conv
    times: int  # frames of each frame


Part = Entry | Exit | Block | Attention | Up


def encoder_parts(config: VaeConfig) -> list[Part]:
    """From frames to moments."""
    widths = config.block_out_channels
    parts: list[Part] = [Entry(Conv(name="conv_in", inner=config.in_channels, outer=widths[0]))]
    for level, width in enumerate(widths):
        inner = widths[max(0, level - 1)]
        parts += _blocks(f"{level}", (inner, width), config.layers_per_block)
        if level < len(config.encoder_time):
            parts.append(_down(f"{level}.down", width, time=config.encoder_time[level]))
    parts += _middle(widths[-1])
    moments = 2 * config.latent_channels
    parts.append(Exit(Conv(name="conv_out", inner=widths[-1], outer=moments)))
    if config.quant_conv:
        parts.append(Entry(_point("quant_conv", moments, moments)))
    return parts


def decoder_parts(config: VaeConfig) -> tuple[list[Part], list[Part]]:
    """From latent to frames: the part that sees whole frames, and the part that may see tiles."""
    widths, latent = config.block_out_channels[::-1], config.latent_channels
    low: list[Part] = []
    if config.post_quant_conv:
        low.append(Entry(_point("post_quant_conv", latent, latent)))
    low.append(Entry(Conv(name="conv_in", inner=latent, outer=widths[0])))
    low += _middle(widths[0])
    high: list[Part] = []
    for level, width in enumerate(widths):
        inner = widths[max(0, level - 1)]
        blocks = _blocks(f"{level}", (inner, width), config.layers_per_block + 1)
        (low if level < 2 else high).extend(blocks)
        if level < len(config.decoder_time):
            up = _up(f"{level}.up", width, time=config.decoder_time[level])
            (low if level < 1 else high).append(up)
    high.append(Exit(Conv(name="conv_out", inner=widths[-1], outer=config.out_channels)))
    return low, high


def convolutions(part: Part) -> tuple[Conv, ...]:
    """All convolutions of a part; those of an upsampler as if it were not folded."""
    match part:
        case Entry(conv) | Exit(conv):
            return (conv,)
        case Block(first, second, shortcut):
            return (first, second) if shortcut is None else (first, second, shortcut)
        case Up(widen, conv):
            return (widen, conv)
    return ()


def norm_widths(part: Part) -> tuple[int, ...]:
    """Channels of each norm of a part."""
    match part:
        case Exit(conv):
            return (conv.inner,)
        case Block(first, second):
            return (first.inner, second.inner)
        case Attention(width):
            return (width,)
    return ()


def _blocks(name: str, widths: tuple[int, int], count: int) -> Iterator[Block]:
    inner, outer = widths
    for index in range(count):
        path = f"{name}.{index}"
        first = Conv(name=f"{path}.conv1", inner=inner, outer=outer)
        second = Conv(name=f"{path}.conv2", inner=outer, outer=outer)
        shortcut = _point(f"{path}.shortcut", inner, outer) if inner != outer else None
        yield Block(first, second, shortcut)
        inner = outer


def _middle(width: int) -> list[Part]:
    before, after = _blocks("middle", (width, width), 2)
    return [before, Attention(width), after]


def _down(name: str, width: int, *, time: bool) -> Entry:
    taps, stride = (_TAPS, 2) if time else (1, 1)
    shape = {"taps": taps, "time_stride": stride, "space_stride": 2}
    return Entry(Conv(name=name, inner=width, outer=width, **shape))


def _up(name: str, width: int, *, time: bool) -> Up:
    times = 2 if time else 1
    conv = Conv(name=name, inner=width, outer=width)
    return Up(_point(f"{name}.widen", width, 4 * times * width), conv, times)


def _point(name: str, inner: int, outer: int) -> Conv:
    return Conv(name=name, inner=inner, outer=outer, taps=1, side=1)
