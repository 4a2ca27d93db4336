"""Norms of frames and the sum of a residual block as torch compiles them, for `vae.compile`.

Each takes the place of the function of its name in `group_norm` or `rms_norm`, and tells whether it
was done: where torch cannot compile, nothing was, and that function computes it.

A frame [C, H, W] is a matrix [C, P] of its pixels, so that one program serves every size. float64
is computed in float64, everything else in float32, rounded once at the end.

Memory: what torch's compiler does not keep in registers; at most one frame in that precision.

Not yet run on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops import compiler
from engine.ops.kernels.channel_norm import SHORTEST
from engine.ops.norm.cache_blocks import work_dtype

T = TypeVar("T")
Affine = tuple[Tensor, Tensor]


def group_norm_silu(
    x: Tensor, affine: Affine, eps: float, out: Tensor, *, silu: bool, added: Tensor | None = None
) -> bool:
    """GroupNorm of each frame of x + added by itself, then SiLU if wanted.

    Args:
        x: [T, C, H, W]; not changed.
        affine: Weight and bias, each [groups, C / groups], in the precision of the computation.
        eps: Added to the variance.
        out: Shape of x, other memory.
        silu: Apply SiLU.
        added: [C]; None for nothing.
    """
    return _each(
        x, out, lambda t, frames: compiler.done(_group_norm, *frames, affine, added, eps, silu)
    )


def rms_norm_silu(x: Tensor, gamma: Tensor, out: Tensor, *, silu: bool) -> bool:
    """Positions of [T, C, H, W] divided by their lengths, times sqrt(C) * gamma, then SiLU."""
    return _each(x, out, lambda t, frames: compiler.done(_rms_norm, *frames, gamma, silu))


def sum_or(otherwise: Callable[[Tensor, Tensor, Tensor], T]) -> Callable[..., T | None]:
    """Adds frames and a bias [C] to others in place, rounded once; without statistics.

    Args:
        otherwise: Does the same where torch cannot compile it.
    """

    def add(x: Tensor, change: Tensor, bias: Tensor) -> T | None:
        if compiler.done(_add, _pixels(x), _pixels(change), bias):
            return None
        return otherwise(x, change, bias)

    return add


def _each(x: Tensor, out: Tensor, work: Callable[[int, tuple[Tensor, Tensor]], bool]) -> bool:
    """Whether a pass was done for each frame and its place in `out`."""
    pairs = zip(_matrices(x), _matrices(out), strict=True)
    return all(work(index, pair) for index, pair in enumerate(pairs))


def _matrices(frames: Tensor) -> Tensor:
    """[T, C, P], a view."""
    return frames.view(*frames.shape[:2], -1)


def _pixels(frames: Tensor) -> Tensor:
    """All pixels [T * P, C], a view; [T, P, C] where the channels are not the innermost."""
    last = frames.permute(0, 2, 3, 1)
    return last.view(-1, last.shape[-1]) if last.is_contiguous() else last.flatten(1, 2)


def _group_norm(
    x: Tensor, out: Tensor, affine: Affine, added: Tensor | None, eps: float, silu: bool
) -> None:
    x = x.to(work_dtype(x.dtype))
    if added is not None:
        x = x + added.to(x.dtype)[:, None]
    weight, bias = affine
    variance, mean = torch.var_mean(x, 1, correction=0)  # of channels, then of groups
    variance, mean = variance.view_as(weight), mean.view_as(weight)
    middle = mean.mean(1, keepdim=True)
    variance = (variance + (mean - middle).square()).mean(1, keepdim=True)
    scale = weight * torch.rsqrt(variance + eps)
    shift = bias - middle * scale
    _write(x * scale.view(-1, 1) + shift.view(-1, 1), out, silu)


def _rms_norm(x: Tensor, out: Tensor, gamma: Tensor, silu: bool) -> None:
    x = x.to(work_dtype(x.dtype))
    length = x.square().sum(0, keepdim=True).sqrt().clamp_min(SHORTEST)
    factors = gamma.to(x.dtype) * gamma.shape[0] ** 0.5
    _write(x / length * factors[:, None], out, silu)


def _add(x: Tensor, change: Tensor, bias: Tensor) -> None:
    exact = work_dtype(x.dtype)
    x.copy_(x.to(exact) + change.to(exact) + bias.to(exact))


def _write(found: Tensor, out: Tensor, silu: bool) -> None:
    out.copy_(F.silu(found) if silu else found)
