"""How damaged a source looks: what tells whether the restore form will do better."""

from __future__ import annotations

import torch
from torch import Tensor

_BLOCK = 4  # px of the smallest transform of H.264; those of MPEG-2, JPEG and HEVC are multiples
_SMALLEST = 16


def blockiness(luma: Tensor) -> float:
    """How much rougher the px across block edges are than the px inside blocks; 1 is clean.

    Compression shows as steps on the grid of its transform even after a deblocking filter. They
    are measured by third differences, which a smooth change of brightness does not disturb. Grids
    that start at any px are found, since a source may be cropped; a resized one looks clean.

    Args:
        luma: Decoded frames [t, h, w] in any float or integer scale; three to eight frames do.

    Returns:
        Largest of the four grid phases over the mean of all, averaged over both directions;
        1.0 for frames smaller than 16 px or without any detail.
    """
    if min(luma.shape[-2:]) < _SMALLEST:
        return 1.0
    values = luma.to(torch.float32)
    return (_direction(values) + _direction(values.transpose(-1, -2))) / 2


def _direction(values: Tensor) -> float:
    roughness = values.diff(n=3, dim=-1).abs().mean(dim=(0, 1))
    whole = roughness[: len(roughness) // _BLOCK * _BLOCK].view(-1, _BLOCK)
    phases = whole.mean(dim=0)
    return float(phases.max() / phases.mean()) if float(phases.mean()) > 0 else 1.0
