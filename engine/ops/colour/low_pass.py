"""A-trous low pass: binomial stages whose taps stand further and further apart."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def low_pass(pictures: Tensor, distances: Iterable[int]) -> Tensor:
    """What is left after some stages.

    Distances 1, 2, 4, ... are one Gaussian: after three stages its sigma is 3.2 px, after five
    13 px, twice as much after one more.

    Args:
        pictures: [..., H, W] float.
        distances: px between the three taps of each stage.

    Memory: two more tensors of this size, one of them the result.
    """
    low, scratch = pictures.clone(), torch.empty_like(pictures)
    for distance in distances:
        smooth_(low, scratch, distance)
    return low


def smooth_(pictures: Tensor, scratch: Tensor, distance: int) -> None:
    """One stage in place: 1/4, 1/2, 1/4 along both axes; edges go on with their last pixel.

    Args:
        pictures: [..., H, W] float; overwritten.
        scratch: The same shape; overwritten.
        distance: px between the taps, at least 1; may be larger than the picture.
    """
    _along(pictures, scratch, distance, -1)
    _along(scratch, pictures, distance, -2)


def _along(x: Tensor, out: Tensor, distance: int, axis: int) -> None:
    length = x.shape[axis]
    inside = max(0, length - distance)
    edge = length - inside
    torch.mul(x, 0.5, out=out)
    out.narrow(axis, 0, inside).add_(x.narrow(axis, edge, inside), alpha=0.25)
    out.narrow(axis, inside, edge).add_(x.narrow(axis, length - 1, 1), alpha=0.25)
    out.narrow(axis, edge, inside).add_(x.narrow(axis, 0, inside), alpha=0.25)
    out.narrow(axis, 0, edge).add_(x.narrow(axis, 0, 1), alpha=0.25)
