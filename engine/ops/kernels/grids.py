"""Grids of kernels: division of frames and of rows among blocks and threads, and their arguments.

Frames are [T, C, H, W] in channels-last memory, see frames.cuh; rows are [N, C], see rows.cuh.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from engine.ops.kernels import build, driver

THREADS = 256  # THREADS of the sources of rows
MOST_PIXELS = 2**30  # of one frame, so that counting them stays inside 32 bits
MOST_FRAMES = 65_535  # blockIdx.y
_WARP = 32
_MOST_PACKS = 8  # so that a thread's part of a row and its factors stay in registers
_MOST_ROWS = 2**31 - 1
_THREADS_A_PROCESSOR = 1024  # so that all blocks run at once: a second wave would be a short one
_MOST_BLOCKS = 16  # of a multiprocessor


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameGrid:
    """Division of frames: a block takes some pixels of a frame with all their channels."""

    frames: int  # T
    width: int  # pixels of a row
    pixels: int  # pixels of a frame
    channels: int  # C
    vector: int  # channels that a thread reads at once
    lanes: int  # neighbouring threads on one pixel
    rows: int  # pixels that a block processes at the same time
    per_block: int  # pixels of a block, a multiple of `rows`; the last block may have fewer

    @classmethod
    def over(
        cls,
        shape: torch.Size,
        steps: tuple[int, int],
        processors: int,
        *,
        vector: int,
        lanes: int,
        rows: int,
        **own: Any,
    ) -> Self:
        """The grid for frames on a GPU.

        Args:
            shape: T, C, H, W.
            steps: Fewest and most pixels of one thread.
            processors: Multiprocessors of the GPU.
            vector: See the attribute.
            lanes: See the attribute.
            rows: See the attribute.
            own: Attributes of a class of its own.
        """
        frames, channels, height, width = shape
        enough = processors * _MOST_BLOCKS * rows
        least, most = steps
        return cls(
            frames=frames,
            width=width,
            pixels=height * width,
            channels=channels,
            vector=vector,
            lanes=lanes,
            rows=rows,
            per_block=rows * min(most, max(least, -(-frames * height * width // enough))),
            **own,
        )

    @property
    def blocks(self) -> int:
        """Blocks of each frame."""
        return -(-self.pixels // self.per_block)

    def launch(
        self, module: driver.Module, name: str, arguments: tuple[driver.Argument, ...], shared: int
    ) -> None:
        """Launch a kernel with n bytes of shared memory."""
        where = (self.blocks, self.frames, 1), (self.lanes, self.rows, 1), shared
        module.launch(name, where, arguments)


class FrameStrides(ctypes.Structure):
    """Strides of channels-last frames [T, C, H, W], in elements."""

    _fields_ = (("t", ctypes.c_longlong), ("y", ctypes.c_longlong), ("x", ctypes.c_longlong))

    @classmethod
    def of(cls, frames: Tensor) -> FrameStrides:
        """Strides of these frames."""
        t, _, y, x = frames.stride()
        return cls(t, y, x)


class FrameShape(ctypes.Structure):
    """Sizes of frames and of a block's part of them."""

    _fields_ = tuple((name, ctypes.c_int) for name in ("width", "pixels", "per_block", "channels"))

    @classmethod
    def of(cls, grid: FrameGrid) -> FrameShape:
        """Sizes of a grid."""
        return cls(grid.width, grid.pixels, grid.per_block, grid.channels)


# --- rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGrid:
    """Division of rows: each block takes every `blocks`-th one."""

    rows: int  # N
    channels: int  # C
    vector: int  # channels that a thread reads at once
    packs: int  # reads of a thread in a row
    blocks: int

    @property
    def threads(self) -> int:
        """Threads of a block: whole warps that cover a row."""
        lanes = -(-self.channels // (self.vector * self.packs))
        return -(-lanes // _WARP) * _WARP

    def launch(
        self, module: driver.Module, name: str, rows: tuple[driver.Argument, ...], *last: Any
    ) -> None:
        """Launch a kernel with shared memory for a sum over each block.

        Args:
            module: Module with the kernel.
            name: Name of the kernel.
            rows: Its first arguments; its shape follows.
            last: The arguments after that.
        """
        where = (self.blocks, 1, 1), (self.threads, 1, 1), self.threads // _WARP * 4
        module.launch(name, where, (*rows, Shape(self.rows, self.channels), *last))


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
    """The grid for rows [N, C] on a GPU with n multiprocessors."""
    rows, channels = shape
    packs = -(-channels // (vector * THREADS))
    grid = RowGrid(rows=rows, channels=channels, vector=vector, packs=packs, blocks=rows)
    most = processors * min(_MOST_BLOCKS, max(1, _THREADS_A_PROCESSOR // grid.threads))
    return replace(grid, blocks=min(rows, most))


def vector_of(*rows: Tensor, wide: Tensor | None = None) -> int:
    """Channels that a thread can read at once from all of these [N, C]; 0: the kernels cannot.

    Args:
        rows: Rows of one dtype.
        wide: Rows of another dtype.
    """
    shape, vector = rows[0].shape, build.vector_width(*rows)
    if wide is not None and vector:
        vector = build.mixed_width(*rows, wide)
    fits = len(shape) == 2 and shape[0] <= _MOST_ROWS and shape[1] <= _MOST_PACKS * THREADS * vector
    return vector if fits else 0


def rows_of(
    family: build.KernelFamily[build.Kernels], *rows: Tensor, wide: Tensor | None = None
) -> tuple[build.Kernels, RowGrid] | None:
    """Kernels for rows [N, C] and their grid; None where the PyTorch reference is used.

    Args:
        family: The kernels.
        rows: Rows of the scalar type.
        wide: Rows of another type.
    """
    device = rows[0].device
    vector = vector_of(*rows, wide=wide) if build.is_gpu(device) else 0
    if not vector:
        return None
    grid = grid_for(rows[0].shape, vector, build.processors(device))
    kernels = family.load(device, rows[0].dtype, vector, grid.packs)
    return None if kernels is None else (kernels, grid)
