"""Traversal of tokens and frames by rows that stay in the cache of a core."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

_CACHED_BYTES = 2**20  # rows and their scratch stay in the cache of a core
_ON_DEVICE_BYTES = 64 * 2**20  # elsewhere fewer launches matter more


def spans(x: Tensor) -> Iterator[slice]:
    """Spans of dimension 0 that cover it; each has about 1 MiB, 64 MiB off the CPU."""
    count = x.shape[0]
    row_bytes = max(1, x.numel() // max(1, count)) * work_dtype(x.dtype).itemsize
    limit = _CACHED_BYTES if x.device.type == "cpu" else _ON_DEVICE_BYTES
    rows = max(1, limit // row_bytes)
    for start in range(0, count, rows):
        yield slice(start, min(start + rows, count))


def work_dtype(dtype: torch.dtype) -> torch.dtype:
    """Dtype of the computation: float64 for float64, float32 for all others."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def inverse_rms(x: Tensor, eps: float) -> Tensor:
    """1 / sqrt(mean(x^2) + eps) over the last dimension, which stays with size 1."""
    # one pass, no squares in memory
    norm: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return norm.square_().div_(x.shape[-1]).add_(eps).rsqrt_()


_BLOCK_BYTES = 2 * 2**20  # a block and its scratch stay in the cache of a core


def rows_of(x: Tensor) -> int:
    """Rows of a block of [T, C, H, W]: as many as fit; elsewhere than on the CPU all of a frame."""
    height, width = x.shape[2:]
    if x.device.type != "cpu":
        return height
    row_bytes = x.shape[1] * width * work_dtype(x.dtype).itemsize
    return max(1, min(height, _BLOCK_BYTES // row_bytes))


def blocks(frame: Tensor, rows: int) -> Iterator[Tensor]:
    """A frame [C, H, W] in blocks of n rows; the last may have fewer.

    The first one stands for all where tensors have no values (`video_vae.measuring`).
    """
    count = frame.shape[1] if type(frame) is Tensor else min(rows, frame.shape[1])
    for top in range(0, count, rows):
        yield frame[:, top : top + rows]


def scratch_of(x: Tensor) -> Tensor:
    """Room for one block of [T, C, H, W], laid out as x, in the precision of the work."""
    return torch.empty_like(x[0, :, : rows_of(x)], dtype=work_dtype(x.dtype))
