"""How far apart tensors are."""

from __future__ import annotations

from torch import Tensor


def relative_rms(found: Tensor, wanted: Tensor) -> float:
    """Root mean square of the difference, in units of that of what is wanted."""
    wanted = wanted.double()
    difference = found.double() - wanted
    return float(difference.square().mean().sqrt() / wanted.square().mean().sqrt())
