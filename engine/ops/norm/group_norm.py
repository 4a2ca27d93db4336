"""GroupNorm and SiLU in one pass over the frames: statistics of each group, then their use.

This is the PyTorch reference, for every device, of the kernels in `engine.ops.kernels.group_norm`,
which replace it on a GPU where `kernels` is true and they work.

Frames are [T, C, H, W], best with the channels innermost in memory (channels last); a view of a
larger buffer and contiguous frames work too, only slower. float64 is computed in float64,
everything else in float32, rounded once at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops.kernels import group_norm
from engine.ops.kernels.conv import Factors
from engine.ops.kernels.group_norm import BlockStatistics
from engine.ops.norm.cache_blocks import blocks, rows_of, scratch_of, work_dtype


@dataclass(frozen=True, slots=True, eq=False)
class GroupStatistics:
    """Statistics of GroupNorm for frames."""

    count: int  # values in each mean: pixels x channels of a group
    mean: Tensor  # [T, G] float64
    m2: Tensor  # [T, G] float64, sum of the squared deviations from `mean`


def group_statistics(x: Tensor, groups: int) -> GroupStatistics:
    """Mean and squared deviations of each frame and group.

    Args:
        x: [T, C, H, W].
        groups: Divides C.

    Memory: a block of 2 MiB; on other devices than the CPU one frame in float32.
    """
    frames, channels, height, width = x.shape
    _check(x, groups)
    rows, scratch = rows_of(x), scratch_of(x)
    shape = (2, frames, -(-height // rows), channels)
    parts = torch.empty(shape, dtype=work_dtype(x.dtype), device=x.device)
    for t in range(frames):
        for part, block in enumerate(blocks(x[t], rows)):
            _statistics_of_block(block, scratch, parts[:, t, part])
    mean, m2 = parts.view(*shape[:3], groups, -1)
    last = height - rows * (shape[2] - 1)
    return combine((rows * width, last * width), mean, m2)


def combine(counts: tuple[int, int], mean: Tensor, m2: Tensor) -> GroupStatistics:
    """Merge the statistics of many parts at once, in float64 (Chan, Golub and LeVeque, 1979).

    Args:
        counts: Values in each mean: of every part but the last, of the last.
        mean: [T, P, G, N]: P parts of each frame, each group in N pieces of the same size.
        m2: Likewise.
    """
    parts, pieces = mean.shape[1], mean.shape[3]
    count = counts[0] * (parts - 1) + counts[1]
    weight = torch.full((parts, 1, 1), counts[0], dtype=torch.float64, device=mean.device)
    weight[-1] = counts[1]
    whole = (mean * weight).sum((1, 3), keepdim=True) / (count * pieces)
    m2 = (m2 + (mean - whole).square() * weight).sum((1, 3))
    return GroupStatistics(count * pieces, whole[:, 0, :, 0], m2)


def scale_and_shift(
    statistics: GroupStatistics, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Factor and summand of GroupNorm for each channel of a frame.

    Args:
        statistics: Statistics of T frames and G groups.
        weight: [C].
        bias: [C].
        eps: Added to the variance.

    Returns:
        Scale and shift, each [T, C]: float64 where `weight` is, float32 otherwise.
    """
    size = weight.numel() // statistics.mean.shape[1]
    inverse = (statistics.m2 / statistics.count + eps).rsqrt()
    scale = inverse.repeat_interleave(size, 1) * weight
    shift = bias - statistics.mean.repeat_interleave(size, 1) * scale
    dtype = work_dtype(weight.dtype)
    return scale.to(dtype), shift.to(dtype)


def normalise(x: Tensor, scale: Tensor, shift: Tensor, out: Tensor, *, silu: bool) -> None:
    """Write `x * scale + shift` into `out`, with SiLU if `silu`.

    Args:
        x: [T, C, H, W].
        scale: [T, C].
        shift: [T, C].
        out: Shape of x; may be x itself, or a view of a larger buffer.
        silu: Apply SiLU.

    Memory: as group_statistics for half precision; nothing for float32 and float64 on the CPU.
    """
    _check(x, 1, out)
    rows = rows_of(x)
    scratch = None if out.dtype == scale.dtype == x.dtype else scratch_of(x)
    scale, shift = scale[..., None, None], shift[..., None, None]
    for t in range(x.shape[0]):
        factors = scale[t], shift[t]
        for block, target in zip(blocks(x[t], rows), blocks(out[t], rows), strict=True):
            _normalise_block(block, factors, (target, scratch), silu)


def group_norm_silu(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    groups: int,
    eps: float,
    out: Tensor,
    *,
    silu: bool = True,
    kernels: bool = False,
    added: Tensor | None = None,
    known: BlockStatistics | None = None,
    kept: Tensor | None = None,
) -> None:
    """GroupNorm of each frame by itself, then SiLU, into `out`: the functions above together.

    Args:
        x: [T, C, H, W].
        weight: [C].
        bias: [C].
        groups: Divides C.
        eps: Added to the variance.
        out: Shape of x.
        silu: Apply SiLU.
        kernels: Use the kernels where they work.
        added: [C] float32, of x + added; without the kernels x becomes that sum.
        known: Statistics of x, from `add_residual`; of no use without the kernels.
        kept: [n, C, H, W], gets the last n frames of `out`, too.
    """
    _check(x, groups, out)
    found = group_norm.find(x, groups, out) if kernels and out.dtype == x.dtype else None
    if found is not None:
        kernel, grid = found
        blocks = known or kernel.statistics(x, grid, added)
        factors = kernel.scale_and_shift(blocks, (weight, bias), eps, added)
        fits = kept is not None and kept.stride()[1:] == out.stride()[1:]
        kernel.normalise((x, out), grid, factors, silu, kept if fits else None)
        if kept is not None and not fits:
            kept.copy_(out[-len(kept) :])
        return
    if added is not None:
        x = x.add_(added.to(x.dtype)[:, None, None])
    statistics = group_statistics(x, groups)
    scale, shift = scale_and_shift(statistics, weight, bias, eps)
    normalise(x, scale, shift, out, silu=silu)
    if kept is not None:
        kept.copy_(out[-len(kept) :])


def factors_of(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    groups: int,
    eps: float,
    *,
    added: Tensor | None = None,
    known: BlockStatistics | None = None,
    kept: Tensor | None = None,
) -> Factors | None:
    """Factors of GroupNorm for a convolution that normalises its input; see `group_norm_silu`.

    Returns:
        None without the kernels: then nothing is in `kept`, else the last frames through SiLU.
    """
    found = group_norm.find(x, groups)
    last = x if kept is None else x[len(x) - len(kept) :]
    of_last = found if kept is None else group_norm.find(last, groups, kept)
    if found is None or of_last is None:
        return None
    kernel, grid = found
    blocks = known or kernel.statistics(x, grid, added)
    scale, shift = kernel.scale_and_shift(blocks, (weight, bias), eps, added)
    if kept is not None:
        kernel, grid = of_last
        kernel.normalise((last, kept), grid, (scale[-len(kept) :], shift[-len(kept) :]), silu=True)
    return Factors(scale, shift)


def add_residual(x: Tensor, change: Tensor, bias: Tensor, groups: int) -> BlockStatistics | None:
    """Add a change and a bias to x in place, with the kernels in one pass, rounded once.

    Args:
        x: [T, C, H, W].
        change: Shape and dtype of x.
        bias: [C] float32.
        groups: Number of groups of the statistics; divides C.

    Returns:
        Statistics of the sum for `group_norm_silu`; None where the PyTorch reference did it.
    """
    found = group_norm.find(x, groups, change)
    if found is None:
        x.add_(change).add_(bias.to(x.dtype)[:, None, None])
        return None
    kernel, grid = found
    return kernel.add_residual(x, change, grid, bias)


def _check(x: Tensor, groups: int, out: Tensor | None = None) -> None:
    if x.shape[1] % groups:
        raise ValueError(f"{x.shape[1]} channels do not come in {groups} groups")
    if out is not None and out.shape != x.shape:
        raise ValueError(f"out is {tuple(out.shape)}, x is {tuple(x.shape)}")


def _statistics_of_block(block: Tensor, scratch: Tensor, found: Tensor) -> None:
    """Write the mean and the squared deviations of each channel of [C, h, W] into [2, C]."""
    work = scratch[:, : block.shape[1]]
    if block.dtype == work.dtype:
        mean = torch.mean(block, (1, 2), out=found[0])
        torch.sub(block, mean[:, None, None], out=work)
    else:
        mean = torch.mean(work.copy_(block), (1, 2), out=found[0])
        work.sub_(mean[:, None, None])
    torch.sum(work.square_(), (1, 2), out=found[1])


def _normalise_block(
    block: Tensor, factors: tuple[Tensor, Tensor], into: tuple[Tensor, Tensor | None], silu: bool
) -> None:
    target, scratch = into
    work = target if scratch is None else scratch[:, : block.shape[1]]
    source = block if block.dtype == work.dtype else work.copy_(block)
    torch.addcmul(factors[1], source, factors[0], out=work)
    if silu:
        F.silu(work, inplace=True)
    if work is not target:
        target.copy_(work)
