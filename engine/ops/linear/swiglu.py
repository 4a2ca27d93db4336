"""SiLU of a gate times a value: the middle of a SwiGLU.

The PyTorch reference, for every device, of the kernel in `engine.ops.kernels.token_rows`.
float64 is computed in float64, everything else in float32 and rounded once at the end.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops.kernels import token_rows
from engine.ops.norm.cache_blocks import spans, work_dtype


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
