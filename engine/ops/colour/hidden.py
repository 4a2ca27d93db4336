"""Colours beneath transparent pixels, not seen, but a model would look at them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def fill_hidden(colours: Tensor, alpha: Tensor) -> None:
    """Give fully transparent pixels colours that continue those of visible ones around them.

    Programs leave anything there, often black. A model that looks at it, or a filter that resizes
    it, would draw it into the edge. Averages over squares of 2, 4, 8 and more pixels, by alpha,
    are interpolated where the smaller squares have nothing visible.

    Args:
        colours: [T, 3, H, W] float32; changed where alpha is 0.
        alpha: [T, 1, H, W] float32, 0 to 1.

    Memory: 33 bytes for a pixel of one frame: with one thread torch interpolates in a copy.
    """
    for frame, veil in zip(colours, alpha, strict=True):
        sums = [F.avg_pool2d(frame * veil, 2, ceil_mode=True)]
        shares = [F.avg_pool2d(veil, 2, ceil_mode=True)]
        while max(shares[-1].shape[-2:]) > 1:
            sums.append(F.avg_pool2d(sums[-1], 2, ceil_mode=True))
            shares.append(F.avg_pool2d(shares[-1], 2, ceil_mode=True))
        found = frame.mean((-2, -1), keepdim=True)  # where nothing is visible
        while sums:
            share = shares.pop()
            found = torch.where(share > 0, sums.pop() / share, _as_large(found, share))
        torch.where(veil > 0, frame, _as_large(found, veil), out=frame)


def _as_large(colours: Tensor, other: Tensor) -> Tensor:
    size = list(other.shape[-2:])
    return F.interpolate(colours[None], size, mode="bilinear", align_corners=False)[0]
