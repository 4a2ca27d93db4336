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
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.hardware.gpu_table import gpu_specs
from engine.ops.kernels import build, driver, group_norm
from engine.ops.kernels.build import pointer
from engine.ops.kernels.grids import MOST_PIXELS, FrameStrides
from engine.ops.kernels.group_norm import BlockStatistics

PROMOTE = 128  # products; a trial on random weights lost 3.7 dB, and 17 dB without any promotion
UNIT = 8  # channels that are read at once: 16 bytes
_DTYPE = torch.float16
_PART_BYTES = 12  # sizeof(Part)
_MOST_SECONDS = 0.5  # of a launch; Windows ends one of two seconds, and with it the GPU's context
_SLOWEST_SHARE = 0.2  # of its nominal rate, that any GPU reaches
_MOST_BLOCKS = 2**31 - 1, 65_535, 65_535  # of a grid


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
    norm: Norm = "none"  # that input frames lack
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

    def can_group(self, group: int) -> bool:
        """Whether the kernel can give statistics of groups of so many channels.

        They lie in one column of warps, and a thread has the same channels of all its pixels.
        """
        across = self.tile.channels // self.tile.warps[1]
        together = min(self.store, group)
        return (
            self.taps.outer % group == across % group == 0
            and self.store % together == group % together == 0
            and 32 % (across // self.store) == 0
        )

    @property
    def sum_pitch(self) -> int:
        """Floats from a pixel's sums of a warp column to the next one's: SUM_PITCH."""
        return (self.tile.channels // self.tile.warps[1] + 23) // 32 * 32 + 8

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: the rings, and after them the sums of a column of warps."""
        taps, tile = self.taps, self.tile
        height = (tile.height - 1) * taps.stride + taps.rows
        width = (tile.width - 1) * taps.stride + taps.columns
        rings = self.halos * height * width + tile.stages * tile.channels
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


class _Blocks(ctypes.Structure):
    """The first block of a launch."""

    _fields_ = tuple((name, ctypes.c_int) for name in "xyz")


class _Norm(ctypes.Structure):
    """Factors of frames that are read."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("scale", "shift", "of_pixel"))


def _norm(factors: Factors | None) -> _Norm:
    if factors is None:
        return _Norm()
    return _Norm(*(None if one is None else one.data_ptr() for one in factors))


class _Result(ctypes.Structure):
    """Frames that are written."""

    _fields_ = (
        ("first", ctypes.c_void_p),
        ("at", FrameStrides),
        *((name, ctypes.c_int) for name in ("height", "width", "channels")),
        ("mean", ctypes.c_void_p),
        ("m2", ctypes.c_void_p),
    )


class _Input(ctypes.Structure):
    """Past and new frames, and how taps lie on them."""

    _fields_ = (
        ("past", _Source),
        ("frames", _Source),
        ("past_norm", _Norm),
        ("frames_norm", _Norm),
        *((name, ctypes.c_int) for name in ("past_count", "height", "width", "channels")),
        *((name, ctypes.c_int) for name in ("time_stride", "reach", "above", "left", "silu")),
    )


class Factors(NamedTuple):
    """A norm that frames still lack, all float32, contiguous.

    For "group" x * scale + shift, by frames and channels; for "rms" x * of_pixel * scale.
    """

    scale: Tensor  # [T, I]; for "rms" [I]
    shift: Tensor | None = None  # [T, I]
    of_pixel: Tensor | None = None  # [T, H, W]


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
        norm: Norm of the new frames, for a program that normalises.
        past_norm: Norm of the past frames, likewise; None: they lack none.
        silu: SiLU follows the norms.
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
    norm: Factors | None = None
    past_norm: Factors | None = None
    silu: bool = False

    @property
    def store(self) -> int:
        """Channels that a thread can write at once; 0: the kernel cannot work on these frames."""
        read = [x for x in (self.past, self.frames) if x is not None]
        written = [x for x in (self.out, self.residual) if x is not None]
        if any(x[0, 0].numel() > MOST_PIXELS or x.dtype != _DTYPE for x in (*read, *written)):
            return 0
        if any(width(x) != UNIT for x in read):
            return 0
        return width(*written)


def width(*frames: Tensor) -> int:
    """Channels that a thread can read at once from all of these frames [T, C, H, W]; 0: none."""
    return build.vector_width(*(x.permute(0, 2, 3, 1) for x in frames))


@dataclass(frozen=True, slots=True)
class ConvKernel:
    """A compiled program."""

    module: driver.Module
    program: Program

    def convolve(self, packed: Tensor, work: Work) -> BlockStatistics | None:
        """Convolve; statistics of the result where the program computes them.

        Args:
            packed: Weights of this program, see `Program.packed`.
            work: Work for which the program was made.
        """
        taps, out = self.program.taps, work.out
        bias = None if work.bias is None else build.as_factors(work.bias)
        count = work.past_count if work.past is None else work.past.shape[0]
        sizes = count, *work.frames.shape[2:], taps.inner
        steps = work.time_stride, taps.reach, work.above, work.left, work.silu
        read = _Source.of(work.past), _Source.of(work.frames)
        norms = _norm(work.past_norm), _norm(work.norm)
        found = self._room(out)
        addresses = (found.mean.data_ptr(), found.m2.data_ptr()) if found else (None, None)
        arguments = (
            _Input(*read, *norms, *sizes, *steps),
            pointer(packed),
            _Result(out.data_ptr(), FrameStrides.of(out), *out.shape[2:], taps.outer, *addresses),
            pointer(bias),
            _Source.of(work.residual),
        )
        threads, shared = (self.program.tile.threads, 1, 1), self.program.shared_bytes
        for launch in launches(self.program, out.shape):
            grid = launch.blocks, threads, shared
            self.module.launch("convolve", grid, (*arguments, _Blocks(*launch.first)))
        return found

    def _room(self, out: Tensor) -> BlockStatistics | None:
        """Room for the statistics of a result."""
        group, tile = self.program.group, self.program.tile
        if not group:
            return None
        pixels = pixels_of_tiles(tile, *out.shape[2:], out.device)
        shape = len(out), len(pixels), out.shape[1] // group
        mean, m2 = out.new_empty((2, *shape), dtype=torch.float32)
        return BlockStatistics(mean, m2, group_norm.grid_for(out.shape, group, UNIT, 1), pixels)


@cache
def pixels_of_tiles(tile: Tile, height: int, width: int, device: torch.device) -> Tensor:
    """Pixels of each tile of a frame, [P] int32; those at its borders may have fewer."""
    rows, columns = (
        torch.tensor([min(step, side - start) for start in range(0, side, step)])
        for step, side in ((tile.height, height), (tile.width, width))
    )
    return torch.outer(rows, columns).flatten().to(device, torch.int32)


class Launch(NamedTuple):
    """A box of blocks: across a frame (all parts of a tile are neighbours), down, and frames."""

    first: driver.Size3
    blocks: driver.Size3


def launches(program: Program, shape: torch.Size) -> Iterator[Launch]:
    """Launches for a result [T, O, H, W], none longer than half a second on any GPU."""
    frames, _, height, width = shape
    tile, left = program.tile, max(1, int(most_operations() / program.block_operations))
    sides = program.parts * -(-width // tile.width), -(-height // tile.height), frames
    steps = []
    for side, most in zip(sides, _MOST_BLOCKS, strict=True):
        steps.append(min(side, most, left))
        left = max(1, left // steps[-1])
    ranges = [range(0, side, step) for side, step in zip(sides, steps, strict=True)]
    for z, y, x in product(*reversed(ranges)):
        blocks = (min(n, side - at) for n, side, at in zip(steps, sides, (x, y, z), strict=True))
        yield Launch((x, y, z), cast("driver.Size3", tuple(blocks)))


@cache
def most_operations() -> float:
    """Operations that the slowest GPU does in the time of a launch."""
    slowest = min(gpu.half_flops for gpu in gpu_specs())
    return slowest * _SLOWEST_SHARE * _MOST_SECONDS


# --- kernels that work


# GPUs that multiply as fast with float32 sums: there half precision would gain nothing.
_FULL_RATE = ((8, 0), (9, 0), (10, 0), (10, 3))


def find(
    taps: Taps, device: torch.device, *, store: int = UNIT, norm: Norm = "none", group: int = 0
) -> ConvKernel | None:
    """The kernel of a kind of layer; None: cuDNN computes it.

    Args:
        taps: Kind of the layer.
        device: A device of torch.
        store: See `Work.store`.
        norm: Norm that input frames lack.
        group: Channels of a group whose statistics come with the result; 0: none.

    Raises:
        torch.OutOfMemoryError: There is no memory to try it.
    """
    if not build.is_gpu(device) or not store or taps.inner % UNIT:
        return None
    promote = 0 if _has_full_rate(device) else PROMOTE
    program = Program(taps=taps, tile=tile_for(taps.outer), promote=promote, store=store, norm=norm)
    if group and not program.can_group(group):
        return None
    return load(device, replace(program, group=group))


def _has_full_rate(device: torch.device) -> bool:
    return device != build.VALUELESS and torch.cuda.get_device_capability(device) in _FULL_RATE


@cache
def load(device: torch.device, program: Program) -> ConvKernel | None:
    """A compiled and tried kernel; None, with one warning in the log, if it does not work."""
    return build.checked(
        ("convolution", device, _DTYPE),
        lambda: compile_for(device, program),
        lambda kernel: _error(kernel, device),
    )


def compile_for(device: torch.device, program: Program) -> ConvKernel:
    """The kernel, not tried yet; raises as `build.compiled`."""
    return ConvKernel(build.compiled(device, "conv", program.options()), program)


def _error(kernel: ConvKernel, device: torch.device) -> float:
    """Largest error on small frames of whole numbers, relative to the largest value: 0 is right.

    All sums of their products are exact, in half precision too. Beside the frames that are read is
    NaN; beside those that are written nothing may change.
    """
    program, taps = kernel.program, kernel.program.taps
    random = torch.Generator().manual_seed(1)

    def numbers(least: int, *shape: int) -> Tensor:
        return torch.randint(least, 3, shape, generator=random).double()

    clip = numbers(-2, taps.reach, taps.inner, 9, 19)
    weight = numbers(-2, taps.outer, taps.inner, taps.reach, taps.rows, taps.columns)
    bias, lacking, norms = numbers(-2, taps.outer), clip, (None, None)
    if program.norm == "group":
        scale, shift = numbers(1, taps.reach, taps.inner), numbers(-2, taps.reach, taps.inner)
        lacking = clip * scale[:, :, None, None] + shift[:, :, None, None]
        norms = Factors(scale[:-1], shift[:-1]), Factors(scale[-1:], shift[-1:])
    elif program.norm == "rms":
        scale, pixels = numbers(1, taps.inner), numbers(1, taps.reach, 9, 19)
        lacking = clip * pixels[:, None] * scale[:, None, None]
        norms = Factors(scale, None, pixels[:-1]), Factors(scale, None, pixels[-1:])
    above, left, step = taps.rows // 2, taps.columns // 2, taps.stride
    padded = F.pad(lacking, (left, left, above, above)).movedim(0, 1)[None]
    wanted = F.conv3d(padded, weight, bias, (1, step, step))[0].movedim(1, 0)
    past, frames = (_inside(part, math.nan, device)[1] for part in (clip[:-1], clip[-1:]))
    buffer, out = _inside(torch.zeros_like(wanted), 1.0, device)
    work = Work(
        frames=frames,
        past=past if taps.reach > 1 else None,
        out=out,
        above=above,
        left=left,
        bias=bias.float().to(device),
        past_norm=_on(device, norms[0]),
        norm=_on(device, norms[1]),
    )
    statistics = kernel.convolve(program.packed(weight.to(device)), work)
    found, right = [buffer], [_inside(wanted.half(), 1.0, device)[0]]
    if statistics is not None and statistics.pixels is not None:
        share = statistics.pixels.double() / statistics.pixels.sum()
        found.append((statistics.mean * share[:, None]).sum(1))
        right.append(wanted.unflatten(1, (-1, program.group)).mean((2, 3, 4)).to(device))
    differences = [(a.double() - b.double()).abs().max() for a, b in zip(found, right, strict=True)]
    return float(torch.stack(differences).max() / wanted.abs().max())


def _inside(frames: Tensor, around: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """A channels-last buffer of one value, and frames in the middle of it."""
    count, channels, height, width = frames.shape
    shape = count, height + 2, width + 2, channels
    buffer = torch.full(shape, around, dtype=_DTYPE, device=device).permute(0, 3, 1, 2)
    view = buffer[:, :, 1:-1, 1:-1]
    view.copy_(frames)
    return buffer, view


def _on(device: torch.device, factors: Factors | None) -> Factors | None:
    if factors is None:
        return None
    return Factors(*(None if one is None else one.float().to(device) for one in factors))
