"""Passes over tokens that read each value once: RMS norm with modulation, gated sum, SwiGLU.

The kernels are in token_rows.cu, their PyTorch references in `engine.ops.norm.token_passes`; tests
run the same source on the CPU. The tokens that are normed and added to may be in float32 next to
half precision: no GPU has run those.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops.kernels import build, driver
from engine.ops.kernels.build import pointer
from engine.ops.kernels.grids import THREADS, Matrix, RowGrid, grid_for, rows_of


@dataclass(frozen=True, slots=True)
class RowKernels:
    """The three kernels for one device, dtype, vector and number of packs."""

    module: driver.Module

    def rms_modulate(
        self,
        rows: tuple[Tensor, Tensor],
        grid: RowGrid,
        factors: tuple[Tensor | None, Tensor | None],
        eps: float,
    ) -> None:
        """Write rows[0], normalised, scaled and shifted by [C] each, into rows[1]."""
        kept = tuple(None if part is None else build.as_factors(part) for part in factors)
        last = pointer(kept[0]), pointer(kept[1]), ctypes.c_float(eps)
        grid.launch(self.module, "rms_modulate", tuple(map(Matrix.of, rows)), *last)

    def add_gated(self, rows: tuple[Tensor, Tensor], grid: RowGrid, gate: Tensor) -> None:
        """Add rows[1] times [C] to rows[0]."""
        kept = build.as_factors(gate)
        grid.launch(self.module, "add_gated", tuple(map(Matrix.of, rows)), pointer(kept))

    def swiglu(self, rows: tuple[Tensor, Tensor, Tensor], grid: RowGrid) -> None:
        """Write silu(rows[0]) * rows[1] into rows[2]."""
        grid.launch(self.module, "swiglu", tuple(map(Matrix.of, rows)))


def _error(
    kernels: RowKernels,
    device: torch.device,
    dtype: torch.dtype,
    sizes: tuple[int, int],
    stream: torch.dtype | None = None,
) -> float:
    """Largest error of the three kernels on a few rows, relative to the largest value.

    The rows are parts of larger buffers whose other values must not change.

    Args:
        kernels: The compiled kernels.
        device: Device they were compiled for.
        dtype: Its values.
        sizes: Values of a vector, and vectors ("packs") that a thread takes of a row.
        stream: Type of the rows that are normed and added to; None: `dtype`.
    """
    vector, packs = sizes
    channels = vector * ((packs - 1) * THREADS + 3)
    random = torch.Generator().manual_seed(1)
    shape = 3, 6, channels + 2 * vector
    x, y, out = (torch.randn(shape, generator=random) * 2).to(device, dtype)
    x = x.to(stream or dtype)
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
    """Computes in float64 the work of the three kernels in `_error`."""
    x, y, out = (part[box] for part in buffers)
    x += y * factors[0]
    y.copy_(F.silu(x) * y)
    out.copy_(x / (x.square().mean(1, keepdim=True) + 1e-5).sqrt() * factors[0] + factors[1])


KERNELS = build.KernelFamily(
    "token row", "token_rows", "PACKS", RowKernels, _error, lambda vector: 2
)
STREAM_KERNELS = build.KernelFamily(
    "token row of float32",
    *("token_rows", "PACKS", RowKernels, partial(_error, stream=torch.float32), lambda vector: 2),
    dtypes=(torch.float16, torch.bfloat16),
    variant="STREAM_FLOAT32",
)
working = KERNELS.working


def find(stream: Tensor, *rows: Tensor) -> tuple[RowKernels, RowGrid] | None:
    """Kernels for rows [N, C] and their grid; None where the PyTorch reference is used.

    Args:
        stream: Rows that are normed or added to; may be float32 next to others of half precision.
        rows: Further rows of one dtype; SwiGLU has two of them, and `stream` is of that dtype too.
    """
    if len(rows) == 1 and stream.dtype == torch.float32 != rows[0].dtype:
        return rows_of(STREAM_KERNELS, *rows, wide=stream)
    return rows_of(KERNELS, stream, *rows)
