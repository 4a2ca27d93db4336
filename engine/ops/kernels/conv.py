"""Convolutions of half precision over 1 to 3 frames by matrix units: conv.cu.

What cuDNN cannot do here: add products up in half precision, at twice the speed of float32 on every
GeForce since Turing, and keep their precision by adding few of them at a time to a float32 sum;
read past frames where they are, without a clip that joins them; normalise frames as they come in,
and give statistics of what goes out; write every second pixel, as the phases of a folded upsampler
need it. Its PyTorch twin is `torch.nn.functional.conv3d`; tests run the same source on the CPU.

Not for every layer: frames must be channels-last, and their channels a multiple of 8 (a video has
3). `Work.store` and `find` say so, and cuDNN computes the others. `engine.ops.conv.kernel_conv` has
the layers of models.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops.choices import settled, uses
from engine.ops.kernels import build, driver, group_norm
from engine.ops.kernels.build import pointer
from engine.ops.kernels.conv_tiles import (
    DTYPE,
    PROMOTE,
    PROMOTE_TURING,
    UNIT,
    Norm,
    Program,
    Taps,
    Tile,
    launches,
    promote_for,
    tile_for,
)
from engine.ops.kernels.grids import MOST_PIXELS, FrameStrides
from engine.ops.kernels.group_norm import BlockStatistics

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
        residual: Frames like `out` that are added; may be `out` itself; or None.
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
        if any(x[0, 0].numel() > MOST_PIXELS or x.dtype != DTYPE for x in (*read, *written)):
            return 0
        if any(vector_of(x) != UNIT for x in read):
            return 0
        return vector_of(*written)


def vector_of(*frames: Tensor) -> int:
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
        for launch in launches(self.program, out.shape, out.device):
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


# --- kernels that work

TITLE = "convolution"
_USUAL = Taps(32, 32, 3, 3, 3)

# GPUs that multiply as fast with float32 sums: there half precision would gain nothing.
_FULL_RATE = ((8, 0), (9, 0), (10, 0), (10, 3))

_SUMS = {  # choices of a job, by `Program.promote`
    0: "in float32",
    **{each: f"promoted every {each} products" for each in (PROMOTE, PROMOTE_TURING)},
}


def find(
    taps: Taps,
    device: torch.device,
    *,
    store: int = UNIT,
    norm: Norm = "none",
    group: int = 0,
    half_sums: bool = True,
) -> ConvKernel | None:
    """The kernel of a kind of layer; None: cuDNN computes it.

    Args:
        taps: Kind of the layer.
        device: A device of torch.
        store: See `Work.store`.
        norm: Norm that input frames lack.
        group: Channels of a group whose statistics come with the result; 0: none.
        half_sums: Products may be added up in half precision, see `Program.promote`; they are not
            where float32 sums are as fast.

    Raises:
        torch.OutOfMemoryError: There is no memory to try it.
    """
    if not build.is_gpu(device) or not store or taps.inner % UNIT:
        return None
    program = Program(
        taps=taps,
        tile=tile_for(taps.outer),
        promote=_promote_of_job(device) if half_sums else 0,
        store=store,
        norm=norm,
        group=group,
    )
    return load(device, program) if program.can_group and working(device) else None


def working(device: torch.device) -> bool:
    """Whether the kernel of a small layer works on a GPU; if not, there is one warning in the log.

    No other one is tried then.
    """
    return load(device, Program(taps=_USUAL, tile=tile_for(_USUAL.outer))) is not None


def promote_on(device: torch.device) -> int:
    """Products that a GPU adds up in half precision, where it does; see `promote_for`."""
    return promote_for(_capability(device))


def _promote_of_job(device: torch.device) -> int:
    """`Program.promote` of the running job; without a job, what is faster."""
    sums = settled(
        device.type,
        "sums",
        (TITLE,),
        propose=lambda: _SUMS[0 if _capability(device) in _FULL_RATE else promote_on(device)],
        fault_of=lambda sums: "" if sums in _SUMS.values() else "it is unknown",
    )
    return next(promote for promote, name in _SUMS.items() if name == sums)


def _capability(device: torch.device) -> tuple[int, int]:
    """Compute capability of a GPU; one without values is as a GeForce of today."""
    return (8, 9) if device == build.VALUELESS else torch.cuda.get_device_capability(device)


def load(device: torch.device, program: Program) -> ConvKernel | None:
    """A kernel that was compiled and tried; None: it does not work, or the job does not use it.

    One of few channels is tried, once for all layers that have the same macros.
    """

    def fault() -> str:
        works = _tried(device, program.smallest) is not None
        return "" if works else "it cannot be compiled, or is wrong"

    is_used = uses(device.type, "kernel", (TITLE, *program.smallest.options()), fault)
    tried = _tried(device, program.smallest) if is_used else None
    if tried is None:
        build.report_missing(TITLE, device, DTYPE)
        return None
    return ConvKernel(tried.module, program)


@cache
def _tried(device: torch.device, program: Program) -> ConvKernel | None:
    return build.checked(
        (TITLE, device, DTYPE),
        lambda: compile_for(device, program),
        lambda kernel: _error(kernel, device),
    )


def compile_for(device: torch.device, program: Program) -> ConvKernel:
    """The kernel, not tried yet; raises as `build.compiled`."""
    return ConvKernel(build.compiled(device, "conv", program.options()), program)


def cache_clear() -> None:
    """Forget all trials: for tests."""
    _tried.cache_clear()


def _error(kernel: ConvKernel, device: torch.device) -> float:
    """Largest error on small frames of whole numbers, relative to the largest value: 0 is right.

    All sums of their products are exact, in half precision too. Beside the frames that are read is
    NaN; beside those that are written nothing may change.
    """
    program, taps = kernel.program, kernel.program.taps
    random = torch.Generator().manual_seed(1)
    clip = _numbers(random, taps.reach, taps.inner, 9, 19)
    weight = _numbers(random, taps.outer, taps.inner, taps.reach, taps.rows, taps.columns)
    bias = _numbers(random, taps.outer)
    factors = _factors(program.norm, clip, random)
    above, left, step = taps.rows // 2, taps.columns // 2, taps.stride
    padded = F.pad(_normed(clip, factors), (left, left, above, above)).movedim(0, 1)[None]
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
        past_norm=_of_frames(factors, slice(-1), device),
        norm=_of_frames(factors, slice(-1, None), device),
    )
    statistics = kernel.convolve(program.packed(weight.to(device)), work)
    found, right = [buffer], [_inside(wanted.half(), 1.0, device)[0]]
    if statistics is not None and statistics.pixels is not None:
        share = statistics.pixels.double() / statistics.pixels.sum()
        found.append((statistics.mean * share[:, None]).sum(1))
        groups = torch.unflatten(wanted, 1, (-1, program.group))
        right.append(groups.mean((2, 3, 4)).to(device))
    differences = [(a.double() - b.double()).abs().max() for a, b in zip(found, right, strict=True)]
    return float(torch.stack(differences).max() / wanted.abs().max())


def _numbers(random: torch.Generator, *shape: int, least: int = -2) -> Tensor:
    """Whole numbers up to 2, float64 on the CPU."""
    return torch.randint(least, 3, shape, generator=random).double()


def _factors(norm: Norm, clip: Tensor, random: torch.Generator) -> Factors | None:
    """Factors of a norm that keep whole numbers whole, of all frames of a clip [T, I, H, W]."""
    frames, channels, *size = clip.shape
    if norm == "group":
        scale = _numbers(random, frames, channels, least=1)
        return Factors(scale, _numbers(random, frames, channels))
    if norm == "rms":
        of_pixel = _numbers(random, frames, *size, least=1)
        return Factors(_numbers(random, channels, least=1), None, of_pixel)
    return None


def _normed(clip: Tensor, factors: Factors | None) -> Tensor:
    """A clip with the norm that it lacks."""
    if factors is None:
        return clip
    scaled = clip * factors.scale.expand(clip.shape[:2])[:, :, None, None]
    if factors.of_pixel is not None:
        return scaled * factors.of_pixel[:, None]
    return scaled if factors.shift is None else scaled + factors.shift[:, :, None, None]


def _of_frames(factors: Factors | None, frames: slice, device: torch.device) -> Factors | None:
    """Factors of some frames, as the kernel reads them."""
    if factors is None:
        return None
    scale, shift, of_pixel = factors
    return Factors(
        (scale if scale.ndim == 1 else scale[frames]).float().to(device),
        None if shift is None else shift[frames].float().to(device),
        None if of_pixel is None else of_pixel[frames].float().to(device),
    )


def _inside(frames: Tensor, around: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """A channels-last buffer of one value, and frames in the middle of it."""
    count, channels, height, width = frames.shape
    shape = count, height + 2, width + 2, channels
    buffer = torch.full(shape, around, dtype=DTYPE, device=device).permute(0, 3, 1, 2)
    view = buffer[:, :, 1:-1, 1:-1]
    view.copy_(frames)
    return buffer, view
