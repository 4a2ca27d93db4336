"""Arguments of kernels that describe frames: strides and sizes."""

from __future__ import annotations

import ctypes
from typing import Protocol

from torch import Tensor


class FrameGrid(Protocol):
    """Sizes that a grid has of the frames that it covers."""

    @property
    def width(self) -> int:
        """Pixels of a row."""
        ...

    @property
    def pixels(self) -> int:
        """Pixels of a frame."""
        ...

    @property
    def per_block(self) -> int:
        """Pixels that a block works on."""
        ...

    @property
    def channels(self) -> int:
        """Values of a pixel."""
        ...


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
