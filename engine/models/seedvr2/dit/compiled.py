"""Operations between the matrix products of the fast transformer, compiled by torch.compile.

Only used with the switch `dit.compile`, which is off: torch's compiler needs Triton for a GPU
and a C++ compiler for a CPU, and takes some seconds per operation at first use; see
`engine.ops.compiler`.

Not yet run on a GPU.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.seedvr2.dit.elementwise import ElementwiseOps, Shifts, Triple
from engine.ops import compiler
from engine.ops.attention.qk_rope import HeadNorm, Placement
from engine.ops.norm.cache_blocks import work_dtype


class CompiledOps(ElementwiseOps):
    """Compiled operations: computed in float32 (float64), rounded once at the end.

    What torch cannot compile is done as without the switch.
    """

    def modulated(self, rows: Tensor, by: Shifts, out: Tensor) -> Tensor:
        """Rows [N, dim] normed, scaled and shifted, in `out`."""
        if compiler.done(_modulate, rows, by.scale, by.shift, self._eps, out):
            return out
        return super().modulated(rows, by, out)

    def placed(self, qkv: Tensor, placement: Placement, norms: HeadNorm, out: Triple) -> None:
        """See `engine.ops.attention.qk_rope.gather_qk`."""
        cos, sin = placement.cos, placement.sin
        if cos is not None and sin is not None and placement.angle is not None:
            cos, sin = cos[placement.angle], sin[placement.angle]
        qk = qkv.new_empty(2, len(qkv), *qkv.shape[2:])
        if not compiler.done(_heads, qkv, (norms.q, norms.k), (cos, sin), norms.eps, qk):
            del qk
            super().placed(qkv, placement, norms, out)
            return
        for x, rows in zip((*qk, qkv[:, 2]), out, strict=True):
            for target in placement.target.view(-1, len(x)):
                rows.index_copy_(0, target, x)

    def gated(self, gate: Tensor, value: Tensor) -> Tensor:
        """silu(gate) * value; overwrites the gate."""
        return gate if compiler.done(_gate, gate, value) else super().gated(gate, value)

    def add(self, rows: Tensor, change: Tensor, gate: Tensor | None) -> None:
        """Add `change` times `gate` to the rows."""
        if not compiler.done(_add, rows, change, gate):
            super().add(rows, change, gate)


def _modulate(
    rows: Tensor, scale: Tensor | None, shift: Tensor | None, eps: float, out: Tensor
) -> None:
    x = rows.to(work_dtype(rows.dtype))
    x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    if scale is not None:
        x = x * scale.to(x.dtype)
    if shift is not None:
        x = x + shift.to(x.dtype)
    out.copy_(x)


def _heads(
    qkv: Tensor,
    weights: tuple[Tensor, Tensor],
    turn: tuple[Tensor | None, Tensor | None],
    eps: float,
    out: Tensor,
) -> None:
    """Normed and rotated queries and keys, in `out` [2, N, heads, d]."""
    for which, weight in enumerate(weights):
        x = qkv[:, which].to(work_dtype(qkv.dtype))
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight.to(x.dtype)
        out[which].copy_(_turned(x, *turn))


def _turned(x: Tensor, cos: Tensor | None, sin: Tensor | None) -> Tensor:
    """Each pair of neighbouring channels that has an angle, rotated."""
    if cos is None or sin is None:
        return x
    cos, sin = cos.to(x.dtype)[:, None], sin.to(x.dtype)[:, None]
    turned = 2 * cos.shape[-1]
    first, second = x[..., 0:turned:2], x[..., 1:turned:2]
    pairs = torch.stack((first * cos - second * sin, second * cos + first * sin), -1)
    return torch.cat((pairs.flatten(-2), x[..., turned:]), dim=-1)


def _gate(gate: Tensor, value: Tensor) -> None:
    exact = work_dtype(gate.dtype)
    gate.copy_(F.silu(gate.to(exact)) * value.to(exact))


def _add(rows: Tensor, change: Tensor, gate: Tensor | None) -> None:
    exact = work_dtype(rows.dtype)
    wide = change.to(exact)
    rows.copy_(rows.to(exact) + (wide if gate is None else wide * gate.to(exact)))
