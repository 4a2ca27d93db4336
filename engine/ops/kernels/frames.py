"""How kernels are told where frames lie and how large they are."""

from __future__ import annotations

import ctypes
from typing import Protocol

from torch import Tensor


class Positions(Protocol):
    """What a grid knows of the frames that it covers."""

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
        """Numbers of a pixel."""
        ...


class View(ctypes.Structure):
    """Strides of frames [T, C, H, W] whose channels lie side by side, in elements."""

    _fields_ = (("t", ctypes.c_longlong), ("y", ctypes.c_longlong), ("x", ctypes.c_longlong))

    @classmethod
    def of(cls, frames: Tensor) -> View:
        """Those of some frames."""
        t, _, y, x = frames.stride()
        return cls(t, y, x)


class Shape(ctypes.Structure):
    """Sizes of frames and of a block's part of them."""

    _fields_ = tuple((name, ctypes.c_int) for name in ("width", "pixels", "per_block", "channels"))

    @classmethod
    def of(cls, grid: Positions) -> Shape:
        """Those of a grid."""
        return cls(grid.width, grid.pixels, grid.per_block, grid.channels)
