"""RMS norm with modulation, and the gated sum behind a branch: the passes around linear layers.

The torch form, for every device. float64 is computed in float64, everything else in float32 and
rounded once at the end. Under `torch.inference_mode` or with tensors without gradients only.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.ops.rows import inverse_rms, spans, work_dtype


def rms_modulate(
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor | None,
    eps: float,
    out: Tensor | None = None,
) -> Tensor:
    """Bring each token to a root mean square of 1, then scale and shift its channels.

    Args:
        x: [N, C]; a view will do.
        scale: [C], any float dtype; None: 1. Nothing is added to it.
        shift: [C]; None: 0.
        eps: Added to the mean of the squares.
        out: [N, C], another float dtype if wanted; may be x itself. None makes a new tensor.

    Returns:
        `out`: x / sqrt(mean(x^2) + eps) * scale + shift.

    Memory: the result; for half types 2 MiB of scratch.
    """
    out = torch.empty_like(x) if out is None else out
    if out.shape != x.shape:
        raise ValueError(f"out is {tuple(out.shape)}, x is {tuple(x.shape)}")
    exact = work_dtype(x.dtype)
    scale, shift = (None if part is None else part.to(exact) for part in (scale, shift))
    for span in spans(x):
        some = x[span].to(exact)
        target = out[span] if out.dtype == exact else None
        work = torch.mul(some, inverse_rms(some, eps), out=target)
        if scale is not None and shift is not None:
            torch.addcmul(shift, work, scale, out=work)
        elif scale is not None:
            work.mul_(scale)
        elif shift is not None:
            work.add_(shift)
        if target is None:
            out[span] = work
    return out


def add_gated(residual: Tensor, y: Tensor, gate: Tensor) -> Tensor:
    """Add a branch to the residual stream in place: residual += y * gate.

    Args:
        residual: [N, C].
        y: [N, C], what the branch gave.
        gate: [C], any float dtype.

    Returns:
        `residual`.

    Memory: nothing; for half types 2 MiB of scratch.
    """
    if y.shape != residual.shape:
        raise ValueError(f"y is {tuple(y.shape)}, the residual is {tuple(residual.shape)}")
    exact = work_dtype(residual.dtype)
    gate = gate.to(exact)
    if residual.dtype == y.dtype == exact:
        return residual.addcmul_(y, gate)
    for span in spans(residual):
        residual[span] = residual[span].to(exact).addcmul_(y[span].to(exact), gate)
    return residual
