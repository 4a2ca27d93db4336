"""Embedding of positions over time, height and width by rotation, and of time steps by waves.

Frequencies are always computed here in float32. Published files carry them too, rounded to the
type of the file, which costs up to 7 % of the result (8-bit files); those are never read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

AXES = 3


def geometric_frequencies(rope_dim: int) -> Tensor:
    """Frequencies of an axis whose positions count tokens: 10000^(-2i/n), n = rope_dim // 3.

    Returns:
        [n // 2] float32.
    """
    channels = rope_dim // AXES
    steps = torch.arange(0, channels - channels % 2, 2, dtype=torch.float32)
    return torch.pow(10000.0, -steps / channels)


def linear_frequencies(rope_dim: int) -> Tensor:
    """Frequencies of an axis with positions from -1 to 1: from pi to 128 pi in even steps.

    Returns:
        [n // 2] float32, n = rope_dim // 3 channels.
    """
    return torch.linspace(1.0, 128.0, rope_dim // AXES // 2, dtype=torch.float32) * math.pi


def counted_positions(shape: Sequence[int], first_time: int = 0) -> tuple[Tensor, ...]:
    """Positions along each axis of a window: 0, 1, 2, ...; time starts at `first_time`.

    Returns:
        A float32 vector for each axis.
    """
    firsts = (first_time, *[0] * (len(shape) - 1))
    return tuple(
        torch.arange(first, first + length, dtype=torch.float32)
        for first, length in zip(firsts, shape, strict=True)
    )


def spread_positions(shape: Sequence[int]) -> tuple[Tensor, ...]:
    """Positions along each axis of a window: from -1 to 1 in even steps; a single one is -1.

    Returns:
        A float32 vector for each axis.
    """
    return tuple(torch.linspace(-1.0, 1.0, length, dtype=torch.float32) for length in shape)


def window_angles(positions: Sequence[Tensor], frequencies: Tensor) -> Tensor:
    """Angles of every token of a window, in the order time, height, width (innermost).

    Args:
        positions: Along each axis, [n] each.
        frequencies: [F], the same on each axis.

    Returns:
        [tokens, 3 * F] float32: those of time, then of height, then of width.
    """
    grid = torch.stack(torch.meshgrid(*positions, indexing="ij"), dim=-1)
    return (grid.flatten(0, -2)[..., None] * frequencies).flatten(1)


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate each pair of neighbouring channels by its angle; channels after the last stay.

    `(x0, x1)` becomes `(x0 cos - x1 sin, x1 cos + x0 sin)`, in float32 (float64 for float64).

    Args:
        x: [tokens, heads, d].
        angles: [tokens, P] with 2 * P <= d, for all heads alike.

    Returns:
        The shape and type of x.
    """
    exact = torch.promote_types(x.dtype, torch.float32)
    turned = 2 * angles.shape[-1]
    angles = angles.to(exact)[:, None]
    cosine, sine = angles.cos(), angles.sin()
    pairs = x[..., :turned].to(exact)
    first, second = pairs[..., 0::2], pairs[..., 1::2]
    pairs = torch.stack((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
    return torch.cat((pairs.flatten(-2).to(x.dtype), x[..., turned:]), dim=-1)


def sinusoids(timestep: float, features: int, *, cosines_first: bool = False) -> Tensor:
    """Sines, then cosines of the time step times 10000^(-i/n), i < n = features / 2.

    Returns:
        [features] float32.
    """
    half = features // 2
    exponents = -math.log(10000.0) / half * torch.arange(half, dtype=torch.float32)
    # float32 exponentials differ from CPU to CPU, and the time step makes them large
    angles = timestep * torch.exp(exponents.double()).float()
    waves = (angles.sin(), angles.cos())
    return torch.cat(waves[::-1] if cosines_first else waves)
