"""Norm and rotation of q and k between projection and attention; q, k and v copied into windows.

The PyTorch reference, for every device, of the kernel in `engine.ops.kernels.heads`. float64 is
computed in float64, everything else in float32 and rounded once at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.ops.kernels import heads
from engine.ops.kernels.heads import Triple
from engine.ops.norm.cache_blocks import inverse_rms, spans, work_dtype


@dataclass(frozen=True, slots=True, eq=False)
class HeadNorm:
    """The RMS norm of q and k over the channels of a head."""

    q: Tensor  # [d], the learned weight of q; float32 suits the kernel best, as for angles
    k: Tensor  # [d], that of k
    eps: float  # added to the mean of the squares


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Output rows of tokens, and the rotation of their q and k.

    Attributes:
        target: [N] or [W, N] int64: the row of the outputs that token n goes to; with W
            rows of targets each token is copied to W places, as text tokens are after each window.
        cos: [A, P], for channels 2 p and 2 p + 1 of a head; None: no rotation.
        sin: [A, P].
        angle: [N] int64: the row of `cos` and `sin` of token n; None: row n.
    """

    target: Tensor
    cos: Tensor | None = None
    sin: Tensor | None = None
    angle: Tensor | None = None

    def part(self, tokens: slice) -> Placement:
        """The placement of some of the tokens."""
        if self.angle is not None:
            return replace(self, target=self.target[..., tokens], angle=self.angle[tokens])
        cos, sin = (None if x is None else x[tokens] for x in (self.cos, self.sin))
        return replace(self, target=self.target[..., tokens], cos=cos, sin=sin)


def gather_qk(
    qkv: Tensor, placement: Placement, norm: HeadNorm, out: Triple, *, kernels: bool = True
) -> None:
    """Normalise and rotate q and k of each token, and write q, k and v to their rows.

    Tokens come in their own order and each row of the outputs is written at once, so a projection
    may be done for some tokens at a time: pass its result with `placement.part`. With outputs
    [M, heads, d] whose rows are windows one after the other, rows a to b of W windows of L rows
    are `x[a:b].view(W, L, heads, d).transpose(1, 2)` for `attend`, without a copy.

    Args:
        qkv: [N, 3, heads, d]: q, k and v of every token, as the joined projection gives them.
        placement: Rows and rotation of N tokens.
        norm: Norm of q and k.
        out: q, k and v, each [M, heads, d] of qkv's dtype; other rows stay as they are.
        kernels: Use the kernel where it can.

    Memory: scratch of 1 MiB for each of the three, nothing that grows with N.
    """
    _check(qkv, placement, out)
    if kernels and _done_by_kernel(qkv, placement, norm, out):
        return
    exact = work_dtype(qkv.dtype)
    for span in spans(qkv[:, 0]):
        some, part = qkv[span], placement.part(span)
        turn = _turn_of(part, exact)
        for which, weight in enumerate((norm.q, norm.k)):
            x = some[:, which].to(exact)
            work = torch.empty(x.shape, dtype=exact, device=x.device)
            torch.mul(x, inverse_rms(x, norm.eps), out=work).mul_(weight)
            if turn is not None:
                torch.view_as_complex(_pairs(work, turn.shape[-1])).mul_(turn)
            _write(work.to(qkv.dtype), part.target, out[which])
        _write(some[:, 2], part.target, out[2])


def _done_by_kernel(qkv: Tensor, placement: Placement, norm: HeadNorm, out: Triple) -> bool:
    """Whether the kernel did it; false: nothing was done."""
    target, cos, sin = placement.target, placement.cos, placement.sin
    work = heads.HeadWork(
        qkv=qkv,
        target=target if target.dim() == 2 else target[None],
        angles=None if cos is None or sin is None else (cos, sin),
        angle=placement.angle,
        norm=(norm.q, norm.k),
        eps=norm.eps,
        out=out,
    )
    found = heads.find(work)
    if found is not None:
        found[0].gather_qk(work, found[1])
    return found is not None


def _turn_of(part: Placement, exact: torch.dtype) -> Tensor | None:
    """[n, 1, P], cos + i sin: a complex product turns a pair of channels in one pass."""
    if part.cos is None or part.sin is None:
        return None
    rows = slice(None) if part.angle is None else part.angle
    return torch.complex(part.cos[rows].to(exact), part.sin[rows].to(exact))[:, None]


def _pairs(x: Tensor, count: int) -> Tensor:
    """The first `count` pairs of neighbouring channels, [n, heads, count, 2]."""
    return x[..., : 2 * count].view(*x.shape[:-1], count, 2)


def _write(tokens: Tensor, target: Tensor, out: Tensor) -> None:
    for rows in target if target.dim() == 2 else target[None]:
        out.index_copy_(0, rows, tokens)


def _check(qkv: Tensor, placement: Placement, out: Triple) -> None:
    count, three, heads, channels = qkv.shape
    if three != 3 or any(x.shape[1:] != (heads, channels) for x in out):
        raise ValueError(f"q, k and v {tuple(qkv.shape)} do not fit rows {tuple(out[0].shape[1:])}")
    if placement.target.shape[-1] != count:
        raise ValueError(f"{count} tokens have {placement.target.shape[-1]} targets")
    if (placement.cos is None) != (placement.sin is None):
        raise ValueError("cos without sin, or sin without cos")
