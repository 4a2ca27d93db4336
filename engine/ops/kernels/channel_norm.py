"""RMS norm of each position over its channels and SiLU in one kernel: channel_norm.cu.

A few threads take a pixel together and keep its channels in registers between the sum and the
result, so each value is read once; the result may be a part of another buffer, for example the
input window of the next convolution. The PyTorch reference is `engine.ops.norm.rms_norm`; tests run
the same source on the CPU.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops.kernels import build, driver
from engine.ops.kernels.build import pointer
from engine.ops.kernels.grids import (
    MOST_FRAMES,
    MOST_PIXELS,
    FrameGrid,
    FrameShape,
    FrameStrides,
)

_THREADS = 256  # THREADS of the source
_MOST_LANES = 32  # of a pixel: they exchange sums within a warp
_MOST_PACKS = 8  # so that a thread's channels and their factors stay in registers
_STEPS = 1, 64  # pixels of one thread
SHORTEST = 1e-12  # minimum of the divisor, so that a position of zeros stays zero


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelNormGrid(FrameGrid):
    """A grid of which a few threads take a pixel together: `lanes` is a power of two."""

    packs: int  # reads of each thread


@dataclass(frozen=True, slots=True)
class ChannelNormKernel:
    """The kernel for one device, dtype, vector and number of packs."""

    module: driver.Module

    def normalise(
        self, frames: tuple[Tensor, Tensor], grid: ChannelNormGrid, gamma: Tensor, silu: bool
    ) -> None:
        """Write frames[0], normalised and times gamma [C], into frames[1]."""
        self._launch(*frames, grid, gamma, silu)

    def inverse_lengths(
        self, x: Tensor, grid: ChannelNormGrid, gamma: Tensor, silu: bool, kept: Tensor | None
    ) -> Tensor:
        """Factors of all positions of x, [T, H, W] float32, for what normalises them later.

        The last frames are written as by `normalise` into `kept`, [n, C, H, W].
        """
        found = x.new_empty((x.shape[0], *x.shape[2:]), dtype=torch.float32)
        self._launch(x, kept, grid, gamma, silu, found)
        return found

    def _launch(
        self,
        x: Tensor,
        out: Tensor | None,
        grid: ChannelNormGrid,
        gamma: Tensor,
        silu: bool,
        of_pixel: Tensor | None = None,
    ) -> None:
        factors = build.as_factors(gamma)
        arguments = (
            *(
                pointer(x),
                FrameStrides.of(x),
                pointer(out),
                FrameStrides.of(x if out is None else out),
                FrameShape.of(grid),
            ),
            *(pointer(factors), ctypes.c_float(SHORTEST), ctypes.c_int(silu)),
            *(pointer(of_pixel), ctypes.c_int(grid.frames - (0 if out is None else len(out)))),
        )
        grid.launch(self.module, "rms_norm", arguments, 0)


def grid_for(shape: torch.Size, vector: int, processors: int) -> ChannelNormGrid:
    """The grid for frames [T, C, H, W] on a GPU with n multiprocessors."""
    lanes, packs = lanes_and_packs(shape[1] // vector)
    return ChannelNormGrid.over(
        shape, _STEPS, processors, vector=vector, lanes=lanes, rows=_THREADS // lanes, packs=packs
    )


def lanes_and_packs(reads: int) -> tuple[int, int]:
    """Lanes of a pixel and packs of each lane for n reads; 0, 0: too many.

    As few idle lanes as possible, then as many lanes as possible.
    """
    candidates = []
    lanes = 1
    while lanes <= _MOST_LANES:
        packs = -(-reads // lanes)
        if packs <= _MOST_PACKS:
            candidates.append((lanes * packs, -lanes, packs))
        lanes *= 2
    _, lanes, packs = min(candidates, default=(0, 0, 0))
    return -lanes, packs


def vector_of(*frames: Tensor) -> int:
    """Channels that a thread can read at once from all of these; 0: the kernel cannot read them.

    Args:
        frames: [T, C, H, W] of one shape; views will do.
    """
    t, channels, height, width = frames[0].shape
    if t > MOST_FRAMES or height * width > MOST_PIXELS:
        return 0
    vector = build.vector_width(*(x.permute(0, 2, 3, 1) for x in frames))
    return vector if vector and lanes_and_packs(channels // vector)[0] else 0


def find(*frames: Tensor) -> tuple[ChannelNormKernel, ChannelNormGrid] | None:
    """The kernel for frames [T, C, H, W] and their grid; None: use the PyTorch reference."""
    x = frames[0]
    vector = vector_of(*frames) if build.is_gpu(x.device) else 0
    if not vector:
        return None
    grid = grid_for(x.shape, vector, build.processors(x.device))
    kernel = KERNELS.load(x.device, x.dtype, vector, grid.packs)
    return None if kernel is None else (kernel, grid)


def _error(
    kernel: ChannelNormKernel, device: torch.device, dtype: torch.dtype, sizes: tuple[int, int]
) -> float:
    """Largest error on a small box of random frames, relative to the largest value.

    The box is a view with a position of zeros; the result is a part of a larger buffer whose other
    values must stay zero.
    """
    vector, packs = sizes
    channels = vector * (4 * (packs - 1) + 3)
    random = torch.Generator().manual_seed(1)
    whole = torch.randn(3, channels, 21, 20, generator=random).to(device, dtype)
    gamma = torch.randn(channels, generator=random).to(device)
    box = whole.to(memory_format=torch.channels_last)[1:, :, 2:, 3:]
    box[0, :, 0, 0] = 0
    buffer = torch.zeros_like(whole, memory_format=torch.channels_last)
    wanted = buffer.double()
    normal = F.normalize(box.double(), dim=1) * channels**0.5 * gamma.double()[:, None, None]
    wanted[:2, :, 1:20, :17] = F.silu(normal)
    shape = ChannelNormGrid(
        frames=2,
        width=17,
        pixels=19 * 17,
        channels=channels,
        vector=vector,
        lanes=4,
        rows=_THREADS // 4,
        packs=packs,
        per_block=_THREADS // 2,
    )
    kernel.normalise((box, buffer[:2, :, 1:20, :17]), shape, gamma, True)
    error = (buffer.double() - wanted).abs().max() / wanted.abs().max()
    kept = torch.zeros_like(box[1:])
    lengths = kernel.inverse_lengths(box, shape, gamma, True, kept)
    others = kept.double() - wanted[1:2, :, 1:20, :17]
    inverse = torch.linalg.vector_norm(box.double(), dim=1).clamp(min=SHORTEST).reciprocal()
    away = (lengths.double() / inverse - 1).abs().max()
    return float(torch.stack((error, others.abs().max() / wanted.abs().max(), away)).max())


KERNELS = build.KernelFamily(
    "channel norm", "channel_norm", "PACKS", ChannelNormKernel, _error, lambda vector: 3
)
working = KERNELS.working
