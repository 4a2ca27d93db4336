"""A video VAE tile by tile with blended overlaps, as the public SeedVR2 tool does it.

Every tile sees itself only: norms and attention count its own pixels, so the result differs from
that of the whole frame. `engine.models.seedvr2.vae.split_decode` does better
where the model allows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi

import torch
from torch import Tensor

from engine.core.geometry import Box
from engine.models.video_vae.slicing import SlicedVae

Pair = tuple[int, int]
"""Height, then width."""

_LEAST_WEIGHT = 1e-6


def tiled_encode(vae: SlicedVae, frames: Tensor, tile: Pair, overlap: Pair) -> Tensor:
    """Encode tile by tile: the mean, blended over the overlaps.

    Args:
        vae: Its slicing setting holds for every tile.
        frames: [B, 3, T, H, W] in [-1, 1].
        tile: Height and width of a tile in pixels.
        overlap: Pixels shared with the tile above and with the one to the left. Both are rounded
            down to whole latent positions.

    Returns:
        Unscaled latent [B, L, t, h, w].

    Memory: the latent and its weights beside what one tile takes.
    """
    factor = vae.config.spatial_factor
    whole = (frames.shape[3] // factor, frames.shape[4] // factor)
    rows, columns = _spans(whole, tile, overlap, factor)

    def encoded(box: Box) -> Tensor:
        bottom = box.bottom * factor if box.bottom < whole[0] else None
        right = box.right * factor if box.right < whole[1] else None
        return vae.encode(frames[..., box.y * factor : bottom, box.x * factor : right])

    return _blended(rows, columns, 1, encoded)


def tiled_decode(vae: SlicedVae, latent: Tensor, tile: Pair, overlap: Pair) -> Tensor:
    """Decode tile by tile, the frames blended over the overlaps.

    The ramps are as long as `overlap`, even where the tiles share fewer pixels because that
    number was rounded down: the published values were made so. Take whole latent positions, less
    than a tile: otherwise pixels next to a border may get no weight at all and stay 0.

    Args:
        vae: Its slicing setting holds for every tile.
        latent: [B, L, t, h, w], unscaled.
        tile: Height and width of a tile in pixels of the result.
        overlap: As for `tiled_encode`.

    Returns:
        Frames [B, 3, T, H, W], not clipped.

    Memory: the frames and their weights beside what one tile takes.
    """
    factor = vae.config.spatial_factor
    rows, columns = _spans((latent.shape[3], latent.shape[4]), tile, overlap, factor)
    rows, columns = rows.with_ramp(overlap[0]), columns.with_ramp(overlap[1])

    def decoded(box: Box) -> Tensor:
        return vae.decode(latent[..., box.y : box.bottom, box.x : box.right])

    return _blended(rows, columns, factor, decoded)


@dataclass(frozen=True, slots=True)
class _Axis:
    """How one side of the latent is cut: starts and ends of the tiles, and the ramp between."""

    length: int
    spans: tuple[Pair, ...]
    ramp: int

    def with_ramp(self, ramp: int) -> _Axis:
        return _Axis(self.length, self.spans, ramp)

    def weight(self, span: Pair, factor: int, like: Tensor) -> Tensor:
        """Weights of a tile along this side: ramps where a neighbour is, ones elsewhere."""
        weight = torch.ones((span[1] - span[0]) * factor, dtype=like.dtype, device=like.device)
        count = min(self.ramp, len(weight))
        ramp = torch.linspace(0, 1, count, dtype=like.dtype, device=like.device)
        rising = 0.5 - 0.5 * torch.cos(pi * ramp)
        if span[0] > 0:
            weight[:count] *= rising
        if span[1] < self.length:
            weight[len(weight) - count :] *= 1 - rising
        return weight


def _spans(whole: Pair, tile: Pair, overlap: Pair, factor: int) -> tuple[_Axis, _Axis]:
    """Cuts of both sides in latent positions; everything else is in pixels."""
    rows, columns = (_axis(*side, factor) for side in zip(whole, tile, overlap, strict=True))
    return rows, columns


def _axis(length: int, tile: int, overlap: int, factor: int) -> _Axis:
    """The last tile is cut at the border; one that only repeats the overlap is left out."""
    if tile < 1 or overlap < 0:
        raise ValueError(f"a tile of {tile} pixels with an overlap of {overlap}")
    size = max(1, tile // factor)
    shared = min(overlap // factor, size - 1)
    starts = range(0, length, size - shared)
    kept = [start for start in starts if start == 0 or length - start > shared]
    return _Axis(length, tuple((start, min(start + size, length)) for start in kept), shared)


def _blended(rows: _Axis, columns: _Axis, factor: int, run: Callable[[Box], Tensor]) -> Tensor:
    """Weighted mean of all tiles; a single one is passed on as it is.

    Args:
        rows: Cuts of the height.
        columns: Cuts of the width.
        factor: Result pixels per latent position.
        run: Gives the result of one box of latent positions.
    """
    if len(rows.spans) == len(columns.spans) == 1:
        return run(Box(0, 0, columns.length, rows.length))
    canvas = _Canvas(rows, columns, factor)
    for top, bottom in rows.spans:
        for left, right in columns.spans:
            box = Box(left, top, right - left, bottom - top)
            canvas.add(run(box), box)
    return canvas.result()


class _Canvas:
    """Sum of weighted tiles, in float32 at least."""

    def __init__(self, rows: _Axis, columns: _Axis, factor: int) -> None:
        self._rows, self._columns, self._factor = rows, columns, factor
        self._dtype = torch.float32
        self._sum = self._weights = torch.zeros(0)

    def add(self, tile: Tensor, box: Box) -> None:
        """Add [B, C, T, y, x], the result of a box of latent positions."""
        factor = self._factor
        if not self._sum.numel():
            self._start(tile)
        down = self._rows.weight((box.y, box.bottom), factor, self._sum)
        across = self._columns.weight((box.x, box.right), factor, self._sum)
        weight = down[:, None] * across
        rows = slice(box.y * factor, box.bottom * factor)
        columns = slice(box.x * factor, box.right * factor)
        self._sum[..., rows, columns] += tile * weight
        self._weights[rows, columns] += weight

    def result(self) -> Tensor:
        """The weighted mean, in the type of the tiles."""
        return self._sum.div_(self._weights.clamp_(min=_LEAST_WEIGHT)).to(self._dtype)

    def _start(self, tile: Tensor) -> None:
        sides = (self._rows.length * self._factor, self._columns.length * self._factor)
        wide = torch.promote_types(tile.dtype, torch.float32)
        self._dtype = tile.dtype
        self._sum = tile.new_zeros((*tile.shape[:3], *sides), dtype=wide)
        self._weights = tile.new_zeros(sides, dtype=wide)
