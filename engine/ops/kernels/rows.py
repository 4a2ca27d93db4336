"""Division of rows [N, C] among the blocks and threads of a kernel; see rows.cuh."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.ops.kernels import build

THREADS = 256  # THREADS of the source
_WARP = 32
_MOST_PACKS = 8  # so that a thread's part of a row and its factors stay in registers
_MOST_ROWS = 2**31 - 1
_THREADS_A_PROCESSOR = 1024  # so that all blocks run at once: a second wave would be a short one
_MOST_BLOCKS = 16  # of a processor


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGrid:
    """Division of rows among blocks and threads.

    Attributes:
        rows: N.
        channels: C.
        vector: Channels that a thread reads at once.
        packs: Reads of a thread in a row.
        blocks: Each takes every `blocks`-th row.
    """

    rows: int
    channels: int
    vector: int
    packs: int
    blocks: int

    @property
    def threads(self) -> int:
        """Threads of a block: whole warps that cover a row."""
        lanes = -(-self.channels // (self.vector * self.packs))
        return -(-lanes // _WARP) * _WARP

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a sum over the block."""
        return self.threads // _WARP * 4


class Matrix(ctypes.Structure):
    """Rows [N, C] as a kernel reads them."""

    _fields_ = (("first", ctypes.c_void_p), ("pitch", ctypes.c_longlong))

    @classmethod
    def of(cls, rows: Tensor) -> Matrix:
        """Rows whose channels are next to each other."""
        return cls(rows.data_ptr(), rows.stride(0))


class Shape(ctypes.Structure):
    """N and C."""

    _fields_ = (("rows", ctypes.c_int), ("channels", ctypes.c_int))


def grid_for(shape: torch.Size, vector: int, processors: int) -> RowGrid:
    """The grid for rows [N, C] on a GPU with so many processors."""
    rows, channels = shape
    packs = -(-channels // (vector * THREADS))
    grid = RowGrid(rows=rows, channels=channels, vector=vector, packs=packs, blocks=rows)
    most = processors * min(_MOST_BLOCKS, max(1, _THREADS_A_PROCESSOR // grid.threads))
    return replace(grid, blocks=min(rows, most))


def vector_of(*rows: Tensor) -> int:
    """Channels that a thread can read at once from all of these [N, C]; 0: the kernels cannot."""
    shape, vector = rows[0].shape, build.vector_width(*rows)
    fits = len(shape) == 2 and shape[0] <= _MOST_ROWS and shape[1] <= _MOST_PACKS * THREADS * vector
    return vector if fits else 0
