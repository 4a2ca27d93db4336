"""Feathered sum of tiles on a canvas: no edge of a tile stays visible."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.geometry import Box, Size


class Blender:
    """Adds finished tiles with ramps over what neighbours share, then divides by the weights.

    The outermost `margin` pixels of a tile that face a neighbour are not used at all: there the
    model saw the end of its tile instead of the picture. A canvas of one tile is the tile itself.

    Memory: one canvas [T, C, H, W] float32 plus its weights [H, W].
    """

    def __init__(self, canvas: Size, *, margin: int) -> None:
        self._canvas = canvas
        self._margin = margin
        self._sum: Tensor | None = None
        self._weight: Tensor | None = None
        self._whole: Tensor | None = None

    def add(self, tile: Tensor, box: Box, overlap: int) -> None:
        """Add one tile.

        Args:
            tile: [T, C, box.height, box.width] float32.
            box: Where it lies on the canvas, in canvas pixels.
            overlap: Least number of canvas pixels shared with each neighbour.
        """
        if box.size == self._canvas:
            self._whole = tile
            return
        if self._sum is None or self._weight is None:
            shape = (*tile.shape[:2], self._canvas.height, self._canvas.width)
            self._sum = tile.new_zeros(shape)
            self._weight = tile.new_zeros(shape[2:])
        rows = self._ramp(box.y, box.height, self._canvas.height, overlap)
        columns = self._ramp(box.x, box.width, self._canvas.width, overlap)
        weight = (rows[:, None] * columns[None, :]).to(tile.device)
        window = (slice(box.y, box.bottom), slice(box.x, box.right))
        self._sum[..., window[0], window[1]] += tile * weight
        self._weight[window] += weight

    def result(self) -> Tensor:
        """The canvas [T, C, H, W] float32; every pixel was covered by at least one tile."""
        if self._whole is not None:
            return self._whole
        if self._sum is None or self._weight is None:
            raise ValueError("no tile was added")
        return self._sum.div_(self._weight)

    def _ramp(self, start: int, length: int, whole: int, overlap: int) -> Tensor:
        """Weights [length]: margin of zeros, a ramp, ones, and the same backwards."""
        ramp = torch.ones(length)
        feather = max(1, overlap - 2 * self._margin)
        up = (torch.arange(feather) + 0.5) / feather
        edge = torch.cat([torch.zeros(self._margin), up])[: length // 2]
        if start > 0:
            ramp[: len(edge)] = edge
        if start + length < whole:
            ramp[length - len(edge) :] = edge.flip(0)
        return ramp
