"""Passes over tokens that read each value once: RMS norm with modulation, gated sum, SwiGLU.

The kernels are in token_rows.cu, the PyTorch references in `engine.ops.norm.modulate` and
`engine.ops.linear.swiglu`; tests run the same source on the processor. Not yet run on a GPU.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops.kernels import build, driver
from engine.ops.kernels.build import pointer

_THREADS = 256  # THREADS of the source
_WARP = 32
_MOST_PACKS = 8  # so that a thread's part of a row and its factors stay in registers
_MOST_ROWS = 2**31 - 1
_THREADS_A_PROCESSOR = 1024  # so that all blocks run at once: a second wave would be a short one
_MOST_BLOCKS = 16  # of a processor


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRowGrid:
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


class _Matrix(ctypes.Structure):
    _fields_ = (("first", ctypes.c_void_p), ("pitch", ctypes.c_longlong))

    @classmethod
    def of(cls, rows: Tensor) -> _Matrix:
        return cls(rows.data_ptr(), rows.stride(0))


class _Shape(ctypes.Structure):
    _fields_ = (("rows", ctypes.c_int), ("channels", ctypes.c_int))


@dataclass(frozen=True, slots=True)
class RowKernels:
    """The three kernels for one device, dtype, vector and number of packs."""

    module: driver.Module

    def rms_modulate(
        self,
        rows: tuple[Tensor, Tensor],
        grid: TokenRowGrid,
        factors: tuple[Tensor | None, Tensor | None],
        eps: float,
    ) -> None:
        """Write rows[0], normalised, scaled and shifted by [C] each, into rows[1]."""
        kept = tuple(None if part is None else build.as_factors(part) for part in factors)
        last = pointer(kept[0]), pointer(kept[1]), ctypes.c_float(eps)
        self._launch("rms_modulate", rows, grid, last)

    def add_gated(self, rows: tuple[Tensor, Tensor], grid: TokenRowGrid, gate: Tensor) -> None:
        """Add rows[1] times [C] to rows[0]."""
        kept = build.as_factors(gate)
        self._launch("add_gated", rows, grid, (pointer(kept),))

    def swiglu(self, rows: tuple[Tensor, Tensor, Tensor], grid: TokenRowGrid) -> None:
        """Write silu(rows[0]) * rows[1] into rows[2]."""
        self._launch("swiglu", rows, grid, ())

    def _launch(
        self,
        name: str,
        rows: tuple[Tensor, ...],
        grid: TokenRowGrid,
        last: tuple[driver.Argument, ...],
    ) -> None:
        shape = _Shape(grid.rows, grid.channels)
        where = (grid.blocks, 1, 1), (grid.threads, 1, 1), grid.shared_bytes
        self.module.launch(name, where, (*map(_Matrix.of, rows), shape, *last))


def grid_for(shape: torch.Size, vector: int, processors: int) -> TokenRowGrid:
    """The grid for rows [N, C] on a GPU with so many processors."""
    rows, channels = shape
    packs = -(-channels // (vector * _THREADS))
    grid = TokenRowGrid(rows=rows, channels=channels, vector=vector, packs=packs, blocks=rows)
    most = processors * min(_MOST_BLOCKS, max(1, _THREADS_A_PROCESSOR // grid.threads))
    return replace(grid, blocks=min(rows, most))


def vector_of(*rows: Tensor) -> int:
    """Channels that a thread can read at once from all of these [N, C]; 0: the kernels cannot."""
    shape, vector = rows[0].shape, build.vector_width(*rows)
    fits = (
        len(shape) == 2 and shape[0] <= _MOST_ROWS and shape[1] <= _MOST_PACKS * _THREADS * vector
    )
    return vector if fits else 0


def find(*rows: Tensor) -> tuple[RowKernels, TokenRowGrid] | None:
    """The kernels for rows [N, C] and their grid; None where the PyTorch reference is used."""
    device = rows[0].device
    vector = vector_of(*rows) if build.is_gpu(device) else 0
    if not vector:
        return None
    grid = grid_for(rows[0].shape, vector, build.processors(device))
    kernels = _load(device, rows[0].dtype, vector, grid.packs)
    return None if kernels is None else (kernels, grid)


def working(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the kernels work on a device in a dtype: compile and equal PyTorch; tried once."""
    vector = build.LOAD_BYTES // dtype.itemsize
    return build.is_gpu(device) and _load(device, dtype, vector, 2) is not None


@cache
def _load(device: torch.device, dtype: torch.dtype, vector: int, packs: int) -> RowKernels | None:
    """The compiled kernels; None, with one warning in the log, if they do not work."""
    return build.checked(
        ("token row", device, dtype),
        lambda: _compile(device, dtype, vector, packs),
        lambda kernels: _error(kernels, device, dtype, (vector, packs)),
    )


def _compile(device: torch.device, dtype: torch.dtype, vector: int, packs: int) -> RowKernels:
    options = build.macros(dtype, VECTOR=vector, PACKS=packs)
    return RowKernels(build.compiled(device, "token_rows", options))


def _error(
    kernels: RowKernels, device: torch.device, dtype: torch.dtype, sizes: tuple[int, int]
) -> float:
    """Largest error of the three kernels on a few rows, relative to the largest value.

    The rows are parts of larger buffers whose other values must not change.
    """
    vector, packs = sizes
    channels = vector * ((packs - 1) * _THREADS + 3)
    random = torch.Generator().manual_seed(1)
    shape = 3, 6, channels + 2 * vector
    x, y, out = (torch.randn(shape, generator=random) * 2).to(device, dtype)
    scale, shift = torch.randn(2, channels, generator=random).to(device)
    box = slice(1, 6), slice(vector, vector + channels)
    wanted = [part.double() for part in (x, y, out)]
    _reference(wanted, box, (scale.double(), shift.double()))
    grid = grid_for(x[box].shape, vector, 1)
    kernels.add_gated((x[box], y[box]), grid, scale)
    kernels.swiglu((x[box], y[box], y[box]), grid)
    kernels.rms_modulate((x[box], out[box]), grid, (scale, shift), 1e-5)
    return max(
        float((found.double() - want).abs().max() / want.abs().max())
        for found, want in zip((x, y, out), wanted, strict=True)
    )


def _reference(
    buffers: list[Tensor], box: tuple[slice, slice], factors: tuple[Tensor, Tensor]
) -> None:
    """What the three kernels do one after the other in `_error`, in float64."""
    x, y, out = (part[box] for part in buffers)
    x += y * factors[0]
    y.copy_(F.silu(x) * y)
    out.copy_(x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt() * factors[0] + factors[1])
