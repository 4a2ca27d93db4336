"""Resampling of chroma, with each sample at its location in the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from engine.protocol.media import Chroma, subsampling

Location = Literal["middle", "first", "second"]  # between two samples of luma, or on one of them


@dataclass(frozen=True, slots=True)
class ChromaHalving:
    """One halving of an axis (-1 across, -2 down)."""

    axis: int
    location: Location


def halvings_of(chroma: Chroma, location: str) -> tuple[ChromaHalving, ...]:
    """The halvings that lead from full to reduced chroma; none where it is not reduced.

    Args:
        chroma: As in VideoInfo.
        location: "left" (MPEG-2 and later), "center" (JPEG, MPEG-1), "topleft" (BT.2020), "top",
            "bottomleft" or "bottom".
    """
    across, down = (factor.bit_length() - 1 for factor in subsampling(chroma))
    horizontal: Location = "first" if location in ("left", "topleft", "bottomleft") else "middle"
    vertical: Location = "middle"
    if location.startswith("top"):
        vertical = "first"
    elif location.startswith("bottom"):
        vertical = "second"
    return (ChromaHalving(-2, vertical),) * down + (ChromaHalving(-1, horizontal),) * across


def downsample(values: Tensor, halvings: Sequence[ChromaHalving]) -> Tensor:
    """Halves axes of [..., H, W]; an odd side is rounded up, its last line counts twice.

    Flat areas stay exactly as they are. Memory: half of `values` for each halving.
    """
    for halving in halvings:
        values = _halved(values, halving)
    return values


def upsample(values: Tensor, halvings: Sequence[ChromaHalving]) -> Tensor:
    """Doubles axes of [..., h, w] linearly: the inverse of `downsample` in flat areas.

    Returns:
        float32; the caller cuts a side that was odd.
    """
    values = values.float()
    for halving in reversed(halvings):  # across first: fewer rows to go through
        values = _doubled(values, halving)
    return values


def _halved(values: Tensor, halving: ChromaHalving) -> Tensor:
    axis = halving.axis
    if values.shape[axis] % 2:
        last = values.narrow(axis, values.shape[axis] - 1, 1)
        values = torch.cat((values, last), dim=axis)
    even, odd = _every_other(values, axis)
    if halving.location == "middle":
        return torch.add(even, odd).mul_(0.5)
    # A sample on one of the two weighs 1 2 1, with the line outside the picture repeated.
    own, other = (even, odd) if halving.location == "first" else (odd, even)
    rest = own.shape[axis] - 1
    result = torch.mul(own, 0.5).add_(other, alpha=0.25)
    if halving.location == "first":
        result.narrow(axis, 1, rest).add_(other.narrow(axis, 0, rest), alpha=0.25)
        result.narrow(axis, 0, 1).add_(own.narrow(axis, 0, 1), alpha=0.25)
    else:
        result.narrow(axis, 0, rest).add_(other.narrow(axis, 1, rest), alpha=0.25)
        result.narrow(axis, rest, 1).add_(own.narrow(axis, rest, 1), alpha=0.25)
    return result


def _doubled(values: Tensor, halving: ChromaHalving) -> Tensor:
    axis, count = halving.axis, values.shape[halving.axis]
    shape = list(values.shape)
    shape[axis] = 2 * count
    result = values.new_empty(shape)
    even, odd = _every_other(result, axis)
    first, rest = values.narrow(axis, 0, count - 1), values.narrow(axis, 1, count - 1)
    share = 0.25 if halving.location == "middle" else 0.5  # of the neighbour
    if halving.location == "first":
        even.copy_(values)
    else:
        even.narrow(axis, 0, 1).copy_(values.narrow(axis, 0, 1))
        even.narrow(axis, 1, count - 1).copy_(torch.lerp(rest, first, share))
    if halving.location == "second":
        odd.copy_(values)
    else:
        odd.narrow(axis, count - 1, 1).copy_(values.narrow(axis, count - 1, 1))
        odd.narrow(axis, 0, count - 1).copy_(torch.lerp(first, rest, share))
    return result


def _every_other(values: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    if axis == -1:
        return values[..., 0::2], values[..., 1::2]
    return values[..., 0::2, :], values[..., 1::2, :]
