"""Blending of tiles on a canvas, with ramps where neighbours overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.core.geometry import Box, Size
from engine.tiling.grid import Span, cells_of_axis

WHOLE_ROWS, WHOLE_COLUMNS = 255, 257
WHOLE = WHOLE_ROWS * WHOLE_COLUMNS
"""Sum of the weights of a pixel: 65535, white in 16 bits."""


class Blender:
    """Adds finished tiles with ramps over the overlaps, then divides by the weights.

    The outermost `margin` pixels of a tile next to a neighbour are not used at all: they depend on
    the border of the tile instead of the picture. A canvas of one tile is the tile itself.

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
            box: Its position on the canvas, in canvas pixels.
            overlap: Minimum of canvas pixels shared with each neighbour.
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
        """Weights [length]: margin of zeros, a ramp, ones, and the same reversed."""
        ramp = torch.ones(length)
        feather = max(1, overlap - 2 * self._margin)
        up = (torch.arange(feather) + 0.5) / feather
        edge = torch.cat([torch.zeros(self._margin), up])[: length // 2]
        if start > 0:
            ramp[: len(edge)] = edge
        if start + length < whole:
            ramp[length - len(edge) :] = edge.flip(0)
        return ramp


@dataclass(frozen=True, slots=True, eq=False)
class TileWeights:
    """Weights of one tile; those of all tiles add up to WHOLE at every pixel.

    Weights are integers on purpose: white times a weight is that weight exactly, so rounded tiles
    can be added in 16 bits without overflow (ops.transfer.tile_canvas).
    """

    window: Box  # pixels of the canvas with a weight above 0
    rows: Tensor  # [window.height] float32, integers up to WHOLE_ROWS
    columns: Tensor  # [window.width] float32, integers up to WHOLE_COLUMNS

    def weight(self) -> Tensor | None:
        """[height, width] float32 integers; None where no neighbour overlaps."""
        if bool((self.rows == WHOLE_ROWS).all() and (self.columns == WHOLE_COLUMNS).all()):
            return None
        return self.rows[:, None] * self.columns[None, :]


def tile_weights(canvas: Size, boxes: Sequence[Box], *, blend: int) -> list[TileWeights]:
    """Weights of each tile, with ramps around the seams: the middles of the overlaps.

    Args:
        canvas: Size of the whole picture.
        boxes: Tiles of `tile_grid` on that canvas.
        blend: Width of the ramp across a seam, px; 0 for none. Of tiles that share
            `2 * margin + blend` pixels the outermost `margin` have no weight.
    """
    columns = _axis_weights(cells_of_axis(boxes, "x", canvas.width), blend, WHOLE_COLUMNS)
    rows = _axis_weights(cells_of_axis(boxes, "y", canvas.height), blend, WHOLE_ROWS)
    weights = []
    for box in boxes:
        (x, across), (y, down) = columns[box.x], rows[box.y]
        weights.append(TileWeights(Box(x, y, len(across), len(down)), down, across))
    return weights


def _axis_weights(cells: dict[int, Span], blend: int, whole: int) -> dict[int, tuple[int, Tensor]]:
    """Start of each tile -> first pixel with a weight, weights from there on.

    The weight of a tile is the ramp at its left seam minus the one at its right seam. Each ramp is
    subtracted from one tile and added to the next, so the sum is exact.
    """
    parts = {}
    length = max(right for _left, right in cells.values())
    for start, (left, right) in cells.items():
        weights = _rise(left, length, blend, whole) - _rise(right, length, blend, whole)
        positive = weights.nonzero()[:, 0]
        first, last = int(positive[0]), int(positive[-1])
        parts[start] = (first, weights[first : last + 1])
    return parts


def _rise(seam: int, length: int, blend: int, whole: int) -> Tensor:
    """[length] float32 integers: 0 before the seam, `whole` after it, a ramp around it.

    The two ends of the canvas are seams without a ramp.
    """
    distance = torch.arange(length) + 0.5 - seam
    if blend == 0 or seam in (0, length):
        return (distance > 0) * float(whole)
    return (distance / blend + 0.5).clamp_(0, 1).mul_(whole).round_()
