"""Operations between the matrix products of the fast transformer, fused or one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.seedvr2.dit.blocks import rms_norm
from engine.ops.attention.qk_rope import HeadNorm, Placement, gather_qk
from engine.ops.linear.matmul import Activation
from engine.ops.norm.cache_blocks import work_dtype
from engine.ops.norm.token_passes import add_gated, rms_modulate, swiglu
from engine.settings.optimisations import DitSwitches

Triple = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Shifts:
    """Modulation of a step of a layer; each [dim] in the exact type, None: not at all.

    Attributes:
        scale: Factor of the normed tokens.
        shift: Added to them.
        gate: Factor of the step's result.
    """

    scale: Tensor | None = None
    shift: Tensor | None = None
    gate: Tensor | None = None


class ElementwiseOps:
    """Norms, rotation, activation and sums on rows of tokens.

    Args:
        switches: "fused_steps" takes the ones of `engine.ops`, "kernels" those of a GPU;
            "in_place_residual" adds to the rows that are there.
        eps: Epsilon of all norms.
    """

    def __init__(self, switches: DitSwitches, eps: float) -> None:
        self._fused, self._in_place = switches.fused_steps, switches.in_place_residual
        self._kernels = switches.kernels
        self._eps = eps

    def modulated(self, rows: Tensor, by: Shifts, out: Tensor) -> Tensor:
        """Rows [N, dim] normed, scaled and shifted, in `out`."""
        if self._fused:
            return rms_modulate(rows, by.scale, by.shift, self._eps, out, kernels=self._kernels)
        normed = rms_norm(rows, None, self._eps)
        if by.scale is not None:
            normed = normed * by.scale
        return out.copy_(normed if by.shift is None else normed + by.shift)

    def placed(self, qkv: Tensor, placement: Placement, norms: HeadNorm, out: Triple) -> None:
        """See `engine.ops.attention.qk_rope.gather_qk`."""
        if self._fused:
            gather_qk(qkv, placement, norms, out, kernels=self._kernels)
            return
        q, k, v = qkv.unbind(1)
        turned = (
            _turned(rms_norm(x, w, norms.eps), placement) for x, w in ((q, norms.q), (k, norms.k))
        )
        for x, rows in zip((*turned, v), out, strict=True):
            for target in placement.target.view(-1, len(x)):
                rows[target] = x

    def gated(self, gate: Tensor, value: Tensor) -> Tensor:
        """silu(gate) * value; may overwrite the gate."""
        if not self._fused:
            return F.silu(gate) * value
        return swiglu(gate, value, out=gate, kernels=self._kernels)

    def activated(self, hidden: Tensor, activation: Activation) -> Tensor:
        """The activation of a matrix product's result; may overwrite it."""
        if activation == "none":
            return hidden
        if activation == "swish":
            return F.silu(hidden, inplace=self._fused)
        if not self._fused:
            return F.gelu(hidden, approximate="tanh")
        in_place: Any = torch.ops.aten.gelu_
        return torch.as_tensor(in_place(hidden, approximate="tanh"))

    def add(self, rows: Tensor, change: Tensor, gate: Tensor | None) -> None:
        """Add `change` times `gate` to the rows."""
        if not self._in_place:
            gated = change if gate is None else (change * gate).to(rows.dtype)
            rows.copy_(rows + gated)
        elif gate is None:
            rows.add_(change)
        elif self._fused:
            add_gated(rows, change, gate, kernels=self._kernels)
        else:
            rows.add_((change * gate).to(rows.dtype))


def _turned(x: Tensor, placement: Placement) -> Tensor:
    """[N, heads, d], each pair of neighbouring channels rotated."""
    if placement.cos is None or placement.sin is None:
        return x
    rows = slice(None) if placement.angle is None else placement.angle
    cosine, sine = placement.cos[rows][:, None], placement.sin[rows][:, None]
    turned = 2 * cosine.shape[-1]
    exact = x[..., :turned].to(work_dtype(x.dtype))
    first, second = exact[..., 0::2], exact[..., 1::2]
    pairs = (first * cosine - second * sine, second * cosine + first * sine)
    return torch.cat((torch.stack(pairs, -1).flatten(-2).to(x.dtype), x[..., turned:]), dim=-1)
