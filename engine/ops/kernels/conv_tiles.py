"""Division of a convolution among blocks and warps, and of its blocks among launches: conv.cu.

The compiler gets all of it as macros, so that loops over a tile are unrolled and sums stay in
registers; a program is one such set of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from engine.ops.kernels import build
from engine.ops.kernels.driver import Size3
from engine.ops.launches import pieces

PROMOTE, PROMOTE_TURING = 128, 32  # products; see `promote_for`
UNIT = 8  # channels that are read at once: 16 bytes
DTYPE = torch.float16
_PART_BYTES = 12  # sizeof(Part)
_MOST_BLOCKS = 2**31 - 1, 65_535, 65_535  # of a grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A block's part of the result, and how its warps divide it."""

    channels: int
    warps: tuple[int, int]  # down the pixels and across the channels
    height: int = 8
    width: int = 16
    stages: int = 3  # buffers of weights
    blocks: int = 2  # blocks of a multiprocessor

    @property
    def pixels(self) -> int:
        """Pixels of a block."""
        return self.height * self.width

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * math.prod(self.warps)


# The widest tile that pads few channels. A warp multiplies 64 pixels by up to 64 channels: sums of
# half precision and of float32 then take 192 of the 255 registers that a thread can have.
TILES = (
    Tile(channels=128, warps=(2, 2)),
    Tile(channels=96, warps=(2, 2)),
    Tile(channels=64, warps=(2, 2)),
    Tile(channels=32, warps=(4, 1)),
    Tile(channels=16, warps=(4, 1)),
)
_WIDE = 64  # channels of a tile; narrower ones load more for each product

Norm = Literal["none", "group", "rms"]
_NORMS: dict[Norm, int] = {"none": 0, "group": 1, "rms": 2}


class Taps(NamedTuple):
    """Weights of a kind of layer, [O, I, K, kh, kw], and its stride over pixels."""

    outer: int
    inner: int
    reach: int
    rows: int
    columns: int
    stride: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A kernel that can be compiled: a kind of layer and the tile that computes it."""

    taps: Taps
    tile: Tile
    promote: int = PROMOTE  # products of a sum in half precision; 0: sums in float32
    store: int = UNIT  # channels that a thread writes at once
    norm: Norm = "none"  # norm that input frames lack
    group: int = 0  # channels of a group whose statistics come with the result; 0: none

    @property
    def chunk(self) -> int:
        """Channels of a halo: few where strides make it large, or where 32 would be half empty."""
        return 16 if self.taps.stride > 1 or self.taps.inner % 32 in range(1, 17) else 32

    @property
    def halos(self) -> int:
        """Buffers of halos: one is filled `stages - 1` steps before it is read, or earlier."""
        return 1 + -(-(self.tile.stages - 1) // (self.taps.rows * self.taps.columns))

    @property
    def parts(self) -> int:
        """Tiles across the channels of the result."""
        return -(-self.taps.outer // self.tile.channels)

    @property
    def chunks(self) -> int:
        """Chunks of the input's channels."""
        return -(-self.taps.inner // self.chunk)

    @property
    def can_group(self) -> bool:
        """Whether the kernel can give statistics of its groups; true where none are asked for.

        They lie in one column of warps, and a thread has the same channels of all its pixels.
        """
        if not self.group:
            return True
        across, together = self.tile.channels // self.tile.warps[1], min(self.store, self.group)
        return (
            self.taps.outer % self.group == across % self.group == 0
            and self.store % together == self.group % together == 0
            and 32 % (across // self.store) == 0
        )

    @property
    def halo_pixels(self) -> int:
        """Pixels of the input that the taps of a tile see."""
        taps, tile = self.taps, self.tile
        height = (tile.height - 1) * taps.stride + taps.rows
        return height * ((tile.width - 1) * taps.stride + taps.columns)

    @property
    def sum_pitch(self) -> int:
        """Floats from a pixel's sums of a warp column to the next one's: SUM_PITCH."""
        return (self.tile.channels // self.tile.warps[1] + 23) // 32 * 32 + 8

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: the rings, and after them the sums of a column of warps."""
        tile = self.tile
        rings = self.halos * self.halo_pixels + tile.stages * tile.channels
        across, warps = tile.channels // tile.warps[1], math.prod(tile.warps)
        segments = across // min(self.store, self.group) if self.group else 0
        sums = tile.pixels * self.sum_pitch * 4 + warps * segments * _PART_BYTES
        return max(rings * self.chunk * 2, sums)

    @property
    def block_operations(self) -> int:
        """Operations of a block; a multiply-add is two."""
        taps = self.taps
        depth = taps.reach * taps.rows * taps.columns * self.chunks * self.chunk
        return 2 * self.tile.pixels * self.tile.channels * depth

    @property
    def bytes_a_product(self) -> float:
        """Bytes that come into shared memory for a multiply-add: what the L2 cache has to give."""
        taps, tile = self.taps.rows * self.taps.columns, self.tile
        lines = self.halo_pixels + taps * tile.channels
        return 2 * lines / (tile.pixels * tile.channels * taps)

    @property
    def smallest(self) -> Program:
        """A program of the same macros for a layer of few channels: whether it works is tried."""
        taps = self.taps
        inner = min(taps.inner, 64 if self.chunk == 32 else 48)
        outer = min(taps.outer, 2 * self.tile.channels)
        return replace(self, taps=taps._replace(inner=inner, outer=outer))

    def options(self) -> tuple[str, ...]:
        """Macros of the source."""
        taps, tile = self.taps, self.tile
        return build.macros(
            DTYPE,
            ROWS=taps.rows,
            COLUMNS=taps.columns,
            STRIDE=taps.stride,
            TILE_HEIGHT=tile.height,
            TILE_WIDTH=tile.width,
            TILE_CHANNELS=tile.channels,
            WARPS_DOWN=tile.warps[0],
            WARPS_ACROSS=tile.warps[1],
            CHUNK=self.chunk,
            STAGES=tile.stages,
            HALOS=self.halos,
            PROMOTE=self.promote,
            STORE=self.store,
            NORM=_NORMS[self.norm],
            GROUP=self.group,
            BLOCKS=tile.blocks,
        )

    def packed(self, weight: Tensor) -> Tensor:
        """Weights in the order in which blocks read them, padded with zeros.

        Args:
            weight: [O, I, K, kh, kw].

        Returns:
            [parts, K, chunks, kh * kw, channels of a tile, chunk] of half precision.
        """
        outer, inner, reach, rows, columns = weight.shape
        parts, chunks, across = self.parts, self.chunks, self.tile.channels
        shape = parts * across, chunks * self.chunk, reach, rows * columns
        padded = weight.new_zeros(shape, dtype=DTYPE)
        padded[:outer, :inner] = weight.flatten(3)
        tiled = padded.view(parts, across, chunks, self.chunk, reach, rows * columns)
        return tiled.permute(0, 4, 2, 5, 1, 3).contiguous()


def promote_for(capability: tuple[int, int]) -> int:
    """Products that a GPU adds up in half precision before the sum goes into one of float32.

    Matrix units round the sum after each 16 products, those of Turing after each 8; there the
    transformer is in float16 too, and hides less of the VAE's error than one in bfloat16. Errors
    are on docs/benchmarks/half-sums.md. A promotion of all sums of the widest tile takes a warp
    some 300 instructions (counted in its code), the products of one with 128 keep the matrix units
    of a GeForce busy for 4,096 cycles, with 32 for 1,024 (calculated).

    Args:
        capability: Compute capability of the GPU.
    """
    return PROMOTE if capability >= (8, 0) else PROMOTE_TURING


def tile_for(outer: int) -> Tile:
    """The tile for a number of channels of the result."""
    narrow = [tile for tile in TILES if outer <= tile.channels < _WIDE]
    if narrow:
        return narrow[-1]
    wide = [tile for tile in TILES if tile.channels >= _WIDE]
    return min(wide, key=lambda tile: -(-outer // tile.channels) * tile.channels)


# --- launches


class Launch(NamedTuple):
    """A box of blocks: across a frame (all parts of a tile are neighbours), down, and frames."""

    first: Size3
    blocks: Size3


def launches(program: Program, shape: torch.Size, device: torch.device) -> Iterator[Launch]:
    """Launches for a result [T, O, H, W], none longer than half a second on its GPU.

    A block computes its part alone, from the whole depth of the sums: the result does not depend on
    the number of launches, so GPUs of all sizes give the same bits.
    """
    frames, _, height, width = shape
    tile = program.tile
    sides = program.parts * -(-width // tile.width), -(-height // tile.height), frames
    left = pieces("convolution", math.prod(sides), program.block_operations, device, DTYPE)
    steps = []
    for side, most in zip(sides, _MOST_BLOCKS, strict=True):
        steps.append(min(side, most, left))
        left = max(1, left // steps[-1])
    for z, y, x in product(*(range(0, sides[n], steps[n]) for n in (2, 1, 0))):
        across, down, deep = (
            min(step, side - at) for step, side, at in zip(steps, sides, (x, y, z), strict=True)
        )
        yield Launch((x, y, z), (across, down, deep))
