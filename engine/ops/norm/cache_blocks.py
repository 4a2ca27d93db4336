"""Frames in blocks that stay in the cache of a core, for passes that read and write them once."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

_BLOCK_BYTES = 2 * 2**20  # a block and its scratch stay in the cache of a core


def rows_of(x: Tensor) -> int:
    """Rows of a block of [T, C, H, W]: as many as fit; elsewhere than on the CPU all of a frame."""
    height, width = x.shape[2:]
    if x.device.type != "cpu":
        return height
    row_bytes = x.shape[1] * width * work_dtype(x.dtype).itemsize
    return max(1, min(height, _BLOCK_BYTES // row_bytes))


def blocks(frame: Tensor, rows: int) -> Iterator[Tensor]:
    """A frame [C, H, W] in blocks of so many rows; the last may have fewer."""
    for top in range(0, frame.shape[1], rows):
        yield frame[:, top : top + rows]


def scratch_of(x: Tensor) -> Tensor:
    """Room for one block of [T, C, H, W], laid out as x, in the precision of the work."""
    return torch.empty_like(x[0, :, : rows_of(x)], dtype=work_dtype(x.dtype))


def work_dtype(dtype: torch.dtype) -> torch.dtype:
    """float64 is computed in float64, everything else in float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32
