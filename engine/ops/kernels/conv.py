"""Convolutions of half precision over 1 to 3 frames by matrix units: conv.cu.

What cuDNN cannot do here: add products up in half precision, at twice the speed of float32 on every
GeForce since Turing, and keep their precision by adding each `PROMOTE` of them to a float32 sum;
read past frames where they are, without a clip that joins them; write every second pixel, as the
phases of a folded upsampler need it. The PyTorch reference is `torch.nn.functional.conv3d`; tests
run the same source on the CPU.

Not for every layer: channels of the input must be a multiple of 8 (conv_in has 3), and frames
channels-last. `kernel_for` and `Convolution.reads` say so; cuDNN computes the others.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from engine.hardware.gpu_table import gpu_specs
from engine.ops.kernels import build, driver
from engine.ops.kernels.build import pointer
from engine.ops.kernels.grids import MOST_FRAMES, MOST_PIXELS, FrameStrides

PROMOTE = 128  # products; a trial on random weights lost 3.7 dB, and 17 dB without any promotion
UNIT = 8  # channels that are read at once: 16 bytes
_DTYPE = torch.float16
_MOST_SECONDS = 0.5  # of a launch; Windows ends one of two seconds, and with it the GPU's context
_SLOWEST_SHARE = 0.2  # of its nominal rate, that any GPU reaches
_MOST_BLOCKS = 2**31 - 1  # blockIdx.x


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A block's part of the result, and how its warps divide it."""

    channels: int
    warps: tuple[int, int]  # down the pixels and across the channels
    height: int = 8
    width: int = 16
    stages: int = 3  # buffers of weights
    blocks: int = 2  # of a multiprocessor

    @property
    def pixels(self) -> int:
        """Pixels of a block."""
        return self.height * self.width

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * math.prod(self.warps)


# The widest tile that pads few channels; sums of half precision and float32 of 128 channels take
# 96 of the 128 registers that two blocks leave a thread.
TILES = (
    Tile(channels=128, warps=(4, 2)),
    Tile(channels=96, warps=(4, 2)),
    Tile(channels=64, warps=(4, 2)),
    Tile(channels=32, warps=(4, 1)),
    Tile(channels=16, warps=(4, 1)),
)
_WIDE = 64  # channels of a tile; narrower ones load more for each product


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

    @property
    def chunk(self) -> int:
        """Channels of the input in shared memory: fewer for strides, whose halos are large."""
        return 16 if self.taps.stride > 1 or self.taps.inner <= 16 else 32

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
    def shared_bytes(self) -> int:
        """Shared memory of a block: the rings, and after them the sums of a column of warps."""
        taps, tile = self.taps, self.tile
        height = (tile.height - 1) * taps.stride + taps.rows
        width = (tile.width - 1) * taps.stride + taps.columns
        rings = self.halos * height * width + tile.stages * tile.channels
        pitch = (tile.channels // tile.warps[1] + 23) // 32 * 32 + 8  # SUM_PITCH of the source
        return max(rings * self.chunk * 2, tile.pixels * pitch * 4)

    @property
    def block_operations(self) -> int:
        """Operations of a block; a multiply-add is two."""
        taps = self.taps
        depth = taps.reach * taps.rows * taps.columns * self.chunks * self.chunk
        return 2 * self.tile.pixels * self.tile.channels * depth

    def options(self) -> tuple[str, ...]:
        """Macros of the source."""
        taps, tile = self.taps, self.tile
        return build.macros(
            _DTYPE,
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
        padded = weight.new_zeros(shape, dtype=_DTYPE)
        padded[:outer, :inner] = weight.flatten(3)
        tiled = padded.view(parts, across, chunks, self.chunk, reach, rows * columns)
        return tiled.permute(0, 4, 2, 5, 1, 3).contiguous()


def tile_for(outer: int) -> Tile:
    """The tile for so many channels of the result."""
    narrow = [tile for tile in TILES if outer <= tile.channels < _WIDE]
    if narrow:
        return narrow[-1]
    wide = [tile for tile in TILES if tile.channels >= _WIDE]
    return min(wide, key=lambda tile: -(-outer // tile.channels) * tile.channels)


# --- arguments of the kernel


class _Source(ctypes.Structure):
    """Frames that are read."""

    _fields_ = (("first", ctypes.c_void_p), ("at", FrameStrides))

    @classmethod
    def of(cls, frames: Tensor | None) -> _Source:
        if frames is None:
            return cls(None, FrameStrides())
        return cls(frames.data_ptr(), FrameStrides.of(frames))


class _Result(ctypes.Structure):
    """Frames that are written."""

    _fields_ = (
        ("first", ctypes.c_void_p),
        ("at", FrameStrides),
        *((name, ctypes.c_int) for name in ("height", "width", "channels")),
    )


class _Input(ctypes.Structure):
    """Past and new frames, and how taps lie on them."""

    _fields_ = (
        ("past", _Source),
        ("frames", _Source),
        *((name, ctypes.c_int) for name in ("past_count", "height", "width", "channels")),
        *((name, ctypes.c_int) for name in ("time_stride", "reach", "above", "left")),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """A convolution of one slice: result[t] = sum over k of taps[k] on frame time_stride * t + k.

    Attributes:
        frames: [T, I, H, W], new ones.
        out: [T', O, H', W'], may be a view, for example every second pixel of frames.
        past: [n, I, H, W], frames before the new ones, which may be all the same one; None: zeros.
        past_count: n, where `past` is None.
        above: Lines of zeros above a frame; there are as many below it as taps need.
        left: Columns of zeros to its left, likewise.
        time_stride: Input frames from one output frame to the next.
        bias: [O] float32, or None.
        residual: As `out`, is added; may be `out` itself; or None.
    """

    frames: Tensor
    out: Tensor
    past: Tensor | None = None
    past_count: int = 0
    above: int = 0
    left: int = 0
    time_stride: int = 1
    bias: Tensor | None = None
    residual: Tensor | None = None

    @property
    def store(self) -> int:
        """Channels that a thread can write at once; 0: the kernel cannot work on these frames."""
        read = [x for x in (self.past, self.frames) if x is not None]
        written = [x for x in (self.out, self.residual) if x is not None]
        frames, pixels = self.out.shape[0], self.out[0, 0].numel()
        if frames > MOST_FRAMES or pixels > MOST_PIXELS or self.frames.dtype != _DTYPE:
            return 0
        if any(_width(x) != UNIT for x in read) or any(x.dtype != _DTYPE for x in written):
            return 0
        return _width(*written)


def _width(*frames: Tensor) -> int:
    return build.vector_width(*(x.permute(0, 2, 3, 1) for x in frames))


@dataclass(frozen=True, slots=True)
class ConvKernel:
    """A compiled program."""

    module: driver.Module
    program: Program

    def convolve(self, packed: Tensor, work: Work) -> None:
        """Convolve; `packed` are weights of this program, see `Program.packed`."""
        taps, out = self.program.taps, work.out
        bias = None if work.bias is None else build.as_factors(work.bias)
        count = work.past_count if work.past is None else work.past.shape[0]
        sizes = count, *work.frames.shape[2:], taps.inner
        steps = work.time_stride, taps.reach, work.above, work.left
        arguments = (
            _Input(_Source.of(work.past), _Source.of(work.frames), *sizes, *steps),
            pointer(packed),
            _Result(out.data_ptr(), FrameStrides.of(out), *out.shape[2:], taps.outer),
            pointer(bias),
            _Source.of(work.residual),
        )
        threads, shared = (self.program.tile.threads, 1, 1), self.program.shared_bytes
        for launch in launches(self.program, out.shape):
            blocks = launch.blocks, launch.frames, 1
            first = ctypes.c_int(launch.first_frame), ctypes.c_longlong(launch.first_block)
            self.module.launch("convolve", (blocks, threads, shared), (*arguments, *first))


class Launch(NamedTuple):
    """Some blocks of some frames."""

    first_frame: int
    frames: int
    first_block: int
    blocks: int


def launches(program: Program, shape: torch.Size) -> Iterator[Launch]:
    """Launches for a result [T, O, H, W], none longer than half a second on any GPU."""
    frames, _, height, width = shape
    tile = program.tile
    of_frame = program.parts * -(-height // tile.height) * -(-width // tile.width)
    most = min(_MOST_BLOCKS, max(1, int(most_operations() / program.block_operations)))
    together = min(MOST_FRAMES, max(1, most // of_frame))
    for first in range(0, frames, together):
        for block in range(0, of_frame, most):
            yield Launch(first, min(together, frames - first), block, min(most, of_frame - block))


@cache
def most_operations() -> float:
    """Operations that the slowest GPU does in the time of a launch."""
    slowest = min(gpu.half_flops for gpu in gpu_specs())
    return slowest * _SLOWEST_SHARE * _MOST_SECONDS


# --- kernels that work


def kernel_for(program: Program, device: torch.device) -> ConvKernel:
    """The compiled kernel, not tried yet; raises as `build.compiled`."""
    return ConvKernel(build.compiled(device, "conv", program.options()), program)
