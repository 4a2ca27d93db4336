"""RMS norm of each position over its channels, and SiLU, in one pass over the frames.

A position is divided by the length of its channels, so other positions or frames have no influence
and tiles are exact. This is the PyTorch reference, for every device, of the kernel in
`engine.ops.kernels.channel_norm`, which replaces it on a GPU where `kernels` is true and it
can.

Frames are [T, C, H, W], best with the channels innermost in memory (channels last); a view of a
larger buffer will do, contiguous frames too, only slower. float64 is computed in float64,
everything else in float32, rounded once at the end.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.ops.kernels import channel_norm
from engine.ops.kernels.channel_norm import SHORTEST
from engine.ops.kernels.conv import Factors
from engine.ops.norm.cache_blocks import blocks, rows_of, scratch_of, work_dtype


def rms_norm_silu(
    frames: Tensor,
    gamma: Tensor,
    out: Tensor | None = None,
    *,
    silu: bool = True,
    kernels: bool = False,
) -> Tensor:
    """Divide each position by its length, multiply by sqrt(C) * gamma, apply SiLU if wanted.

    Formula: x / max(|x|, 1e-12) * sqrt(C) * gamma, |x| over the channels.

    Args:
        frames: [T, C, H, W].
        gamma: [C], any precision.
        out: Shape of `frames`; may be `frames`, or a view of a larger buffer. None: new memory.
        silu: Apply SiLU.
        kernels: Use the kernel where it can.

    Returns:
        `out`.

    Raises:
        ValueError: The shapes do not belong together; an internal error.

    Memory: a block of 2 MiB; on other devices than the CPU, without the kernel, one frame in
    float32.
    """
    out = torch.empty_like(frames) if out is None else out
    if out.shape != frames.shape or gamma.shape != frames.shape[1:2]:
        shapes = tuple(frames.shape), tuple(gamma.shape), tuple(out.shape)
        raise ValueError("frames {}, gamma {} and out {} do not fit".format(*shapes))
    found = channel_norm.find(frames, out) if kernels else None
    if found is not None:
        kernel, grid = found
        kernel.normalise((frames, out), grid, gamma, silu)
    elif frames.numel():
        _in_blocks(frames, gamma, out, silu)
    return out


def factors_of(
    frames: Tensor, gamma: Tensor, kept: Tensor | None, *, silu: bool = True
) -> Factors | None:
    """Factors for a convolution that normalises its input; see `rms_norm_silu`.

    Args:
        frames: [T, C, H, W].
        gamma: [C], any precision.
        kept: [n, C, H, W], gets the last n frames, normalised.
        silu: SiLU of those.

    Returns:
        None without the kernel.
    """
    found = channel_norm.find(frames, *(() if kept is None else (kept,)))
    if found is None:
        return None
    kernel, grid = found
    lengths = kernel.inverse_lengths(frames, grid, gamma, silu, kept)
    return Factors((gamma * len(gamma) ** 0.5).float(), None, lengths)


def _in_blocks(frames: Tensor, gamma: Tensor, out: Tensor, silu: bool) -> None:
    factors = gamma.to(work_dtype(frames.dtype)) * frames.shape[1] ** 0.5
    rows, scratch = rows_of(frames), scratch_of(frames)
    for frame, target in zip(frames, out, strict=True):
        for block, into in zip(blocks(frame, rows), blocks(target, rows), strict=True):
            _write(block, factors[:, None, None], (into, scratch[:, : block.shape[1]]), silu)


def _write(block: Tensor, factors: Tensor, into: tuple[Tensor, Tensor], silu: bool) -> None:
    """Normalise a block [C, h, W] in a scratch; the last step writes the target, once."""
    target, work = into
    source = block if block.dtype == work.dtype else work.copy_(block)
    length = torch.linalg.vector_norm(source, dim=0, keepdim=True).clamp_min_(SHORTEST)
    torch.mul(source, length.reciprocal_(), out=work)
    last = target if target.dtype == work.dtype else work
    if silu:
        torch.ops.aten.silu.out(work.mul_(factors), out=last)
    else:
        torch.mul(work, factors, out=last)
    if last is work:
        target.copy_(work)
