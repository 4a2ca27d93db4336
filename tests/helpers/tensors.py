"""Comparison of tensors, and a sink of tiles in floating point."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn

from engine.core.geometry import Box, Size

M = TypeVar("M", bound=nn.Module)


def unfilled(make: Callable[[], M]) -> M:
    """A model whose layers have any values: those that torch gives them take longest of all."""
    with pytest.MonkeyPatch.context() as patch:
        for layer in (nn.Conv2d, nn.Conv3d, nn.Linear):
            patch.setattr(layer, "reset_parameters", lambda self: None)
        return make()


def relative_rms(found: Tensor, wanted: Tensor) -> float:
    """Root mean square of the difference, in units of that of what is wanted."""
    wanted = wanted.double()
    difference = found.double() - wanted
    return float(difference.square().mean().sqrt() / wanted.square().mean().sqrt())


def assert_same(found: Tensor, wanted: Tensor) -> None:
    """Values in float64 are the same but for the order of their sums."""
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


_WHITE = 65535  # what the weights of tiles make at every pixel


class FloatSink:
    """A clip as float frames [T, 3, H, W] on the device of its tiles: for exact comparisons.

    Memory: the canvas in the dtype of the tiles.
    """

    def __init__(self, frames: int, size: Size) -> None:
        self._shape = (frames, 3, size.height, size.width)
        self._canvas: Tensor | None = None

    def add(self, part: Tensor, window: Box, start: int, weight: Tensor | None = None) -> None:
        """Add a part, times its weight, as `TileSink.add` does."""
        if self._canvas is None:
            self._canvas = part.new_zeros(self._shape)
        frames = self._canvas[start : start + len(part)]
        target = frames[..., window.y : window.bottom, window.x : window.right]
        target += part if weight is None else part * (weight.to(part) / _WHITE)

    def check(self) -> None:
        """Nothing: infinite values stay visible in the result."""

    def result(self) -> Tensor:
        """The clip [T, 3, H, W].

        Raises:
            ValueError: No tile was added.
        """
        if self._canvas is None:
            raise ValueError("no tile was added")
        return self._canvas
