"""Passes over tokens around linear layers: RMS norm with modulation, gated sum, SwiGLU.

The PyTorch reference, for every device, of the kernels in `engine.ops.kernels.token_rows`, which
replace it on a GPU where `kernels` is true and they work. float64 is computed in float64,
everything else in float32 and rounded once at the end. No gradients.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops.kernels import token_rows
from engine.ops.norm.cache_blocks import inverse_rms, spans, work_dtype


def rms_modulate(
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor | None,
    eps: float,
    out: Tensor | None = None,
    *,
    kernels: bool = True,
) -> Tensor:
    """Bring each token to a root mean square of 1, then scale and shift its channels.

    Args:
        x: [N, C]; a view will do.
        scale: [C]; None: 1. Nothing is added to it. float32 suits the kernels best.
        shift: [C]; None: 0.
        eps: Added to the mean of the squares.
        out: [N, C], another float dtype if wanted; may be x itself. None makes a new tensor.
        kernels: Use the kernels where they can.

    Returns:
        `out`: x / sqrt(mean(x^2) + eps) * scale + shift.

    Memory: the result; for half types 2 MiB of scratch.
    """
    out = torch.empty_like(x) if out is None else out
    if out.shape != x.shape:
        raise ValueError(f"out is {tuple(out.shape)}, x is {tuple(x.shape)}")
    found = token_rows.find(x, out) if kernels else None
    if found is not None:
        found[0].rms_modulate((x, out), found[1], (scale, shift), eps)
        return out
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


def add_gated(residual: Tensor, y: Tensor, gate: Tensor, *, kernels: bool = True) -> Tensor:
    """Add a branch to the residual stream in place: residual += y * gate.

    Args:
        residual: [N, C].
        y: [N, C], what the branch gave.
        gate: [C]; float32 suits the kernels best.
        kernels: Use the kernels where they can.

    Returns:
        `residual`.

    Memory: nothing; for half types 2 MiB of scratch.
    """
    if y.shape != residual.shape:
        raise ValueError(f"y is {tuple(y.shape)}, the residual is {tuple(residual.shape)}")
    found = token_rows.find(residual, y) if kernels else None
    if found is not None:
        found[0].add_gated((residual, y), found[1], gate)
        return residual
    exact = work_dtype(residual.dtype)
    gate = gate.to(exact)
    if residual.dtype == y.dtype == exact:
        return residual.addcmul_(y, gate)
    for span in spans(residual):
        residual[span] = residual[span].to(exact).addcmul_(y[span].to(exact), gate)
    return residual


def swiglu(
    gate: Tensor, value: Tensor, out: Tensor | None = None, *, kernels: bool = True
) -> Tensor:
    """silu(gate) * value.

    Args:
        gate: [N, H]; a view will do, for example one half of a joined projection [N, 2 * H].
        value: [N, H].
        out: [N, H] of the same dtype; may be `gate` or `value`, so that nothing new is needed.
        kernels: Use the kernel where it can.

    Returns:
        `out`, or a new dense tensor.

    Memory: the result, and 1 MiB of scratch.
    """
    if value.shape != gate.shape:
        raise ValueError(f"the gate is {tuple(gate.shape)}, the value {tuple(value.shape)}")
    if out is None:
        out = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    found = token_rows.find(gate, value, out) if kernels else None
    if found is not None:
        found[0].swiglu((gate, value, out), found[1])
        return out
    exact = work_dtype(gate.dtype)
    for span in spans(gate):
        work = gate[span].to(exact, copy=True)
        torch.mul(F.silu(work, inplace=True), value[span], out=work)
        out[span] = work
    return out
