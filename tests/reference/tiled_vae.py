"""A video VAE tile by tile with blended overlaps, as the public SeedVR2 tool does it.

Every tile sees itself only: norms and attention count its own pixels, so the result differs from
that of the whole frame. `engine.models.seedvr2.vae.streams` does better where the model
allows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import pi

import torch
from torch import Tensor

from engine.models.video_vae.slicing import SlicedVae

Pair = tuple[int, int]
"""Height, then width."""

_LEAST_WEIGHT = 1e-6


def tiled_encode(vae: SlicedVae, frames: Tensor, tile: Pair, overlap: Pair) -> Tensor:
    """Encode [B, 3, T, H, W] tile by tile: the unscaled mean, blended over the overlaps.

    Sizes of a tile and of what it shares with the tile above and the one to the left are in
    pixels, and are rounded down to whole latent positions.
    """
    factor = vae.config.spatial_factor
    whole = (frames.shape[3] // factor, frames.shape[4] // factor)
    rows, columns = (_axis(*side, factor) for side in zip(whole, tile, overlap, strict=True))

    def encoded(down: Pair, across: Pair) -> Tensor:
        bottom = down[1] * factor if down[1] < whole[0] else None
        right = across[1] * factor if across[1] < whole[1] else None
        return vae.encode(frames[..., down[0] * factor : bottom, across[0] * factor : right])

    return _blended(rows, columns, 1, encoded)


def tiled_decode(vae: SlicedVae, latent: Tensor, tile: Pair, overlap: Pair) -> Tensor:
    """Decode an unscaled latent tile by tile, the frames [B, 3, T, H, W] blended over the overlaps.

    The ramps are as long as `overlap`, even where the tiles share fewer pixels because that
    number was rounded down: the published values were made so. Take whole latent positions, less
    than a tile: otherwise pixels next to a border may get no weight at all and stay 0.
    """
    factor = vae.config.spatial_factor
    sides = zip(latent.shape[3:], tile, overlap, overlap, strict=True)
    rows, columns = (_axis(*side, factor, ramp) for *side, ramp in sides)

    def decoded(down: Pair, across: Pair) -> Tensor:
        return vae.decode(latent[..., slice(*down), slice(*across)])

    return _blended(rows, columns, factor, decoded)


@dataclass(frozen=True, slots=True)
class _Axis:
    """How one side of the latent is cut: starts and ends of the tiles, and the ramp between."""

    length: int
    spans: tuple[Pair, ...]
    ramp: int

    def weight(self, span: Pair, factor: int, like: Tensor) -> Tensor:
        """Weights of a tile along this side: ramps where a neighbour is, ones elsewhere."""
        weight = like.new_ones((span[1] - span[0]) * factor)
        count = min(self.ramp, len(weight))
        ramp = torch.linspace(0, 1, count, dtype=like.dtype, device=like.device)
        rising = 0.5 - 0.5 * torch.cos(pi * ramp)
        if span[0] > 0:
            weight[:count] *= rising
        if span[1] < self.length:
            weight[len(weight) - count :] *= 1 - rising
        return weight


def _axis(length: int, tile: int, overlap: int, factor: int, ramp: int | None = None) -> _Axis:
    """The last tile is cut at the border; one that only repeats the overlap is left out."""
    size = max(1, tile // factor)
    shared = min(overlap // factor, size - 1)
    starts = range(0, length, size - shared)
    kept = [start for start in starts if start == 0 or length - start > shared]
    spans = tuple((start, min(start + size, length)) for start in kept)
    return _Axis(length, spans, shared if ramp is None else ramp)


def _blended(
    rows: _Axis, columns: _Axis, factor: int, run: Callable[[Pair, Pair], Tensor]
) -> Tensor:
    """Weighted mean of all tiles, summed in float32 at least; a single one is returned as it is.

    A latent position gives `factor` result pixels; `run` takes rows and columns of positions.
    """
    tiles = list(product(rows.spans, columns.spans))
    if len(tiles) == 1:
        return run(*tiles[0])
    total = weights = dtype = None
    for down, across in tiles:
        tile = run(down, across)
        if total is None:
            dtype, wide = tile.dtype, torch.promote_types(tile.dtype, torch.float32)
            sides = (rows.length * factor, columns.length * factor)
            total = tile.new_zeros((*tile.shape[:3], *sides), dtype=wide)
            weights = tile.new_zeros(sides, dtype=wide)
        weight = rows.weight(down, factor, total)[:, None] * columns.weight(across, factor, total)
        inside = tuple(slice(start * factor, stop * factor) for start, stop in (down, across))
        total[(..., *inside)] += tile * weight
        weights[inside] += weight
    return total.div_(weights.clamp_(min=_LEAST_WEIGHT)).to(dtype)
