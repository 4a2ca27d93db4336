"""RMS norm of each position over its channels and SiLU in one kernel: channel_norm.cu.

A few threads take a pixel together and keep its channels in registers between the sum and the
result, so each value is read once; the result may be a part of another buffer, for example the
input window of the next convolution. The PyTorch reference is `engine.ops.norm.rms_norm`; tests run
the same source on the processor.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops.kernels import build, driver
from engine.ops.kernels.build import pointer
from engine.ops.kernels.frames import FrameShape, FrameStrides

_THREADS = 256  # THREADS of the source
_MOST_LANES = 32  # of a pixel: they exchange sums within a warp
_MOST_PACKS = 8  # so that a thread's channels and their factors stay in registers
_MOST_PIXELS = 2**30  # of one frame, so that counting them stays inside 32 bits
_MOST_FRAMES = 65_535  # blockIdx.y
_MOST_STEPS = 64  # pixels of one thread
_BLOCKS_A_PROCESSOR = 16
SHORTEST = 1e-12  # minimum of the divisor, so that a position of zeros stays zero


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelNormGrid:
    """Division of frames among blocks and threads.

    Attributes:
        frames: T.
        width: Pixels of a row.
        pixels: Number of pixels of a frame.
        channels: C.
        vector: Channels that a thread reads at once.
        lanes: Neighbouring threads on one pixel, a power of two.
        packs: Reads of each of them.
        per_block: Pixels of a block, a multiple of `rows`; the last block may have fewer.
    """

    frames: int
    width: int
    pixels: int
    channels: int
    vector: int
    lanes: int
    packs: int
    per_block: int

    @property
    def rows(self) -> int:
        """Pixels that a block processes at the same time."""
        return _THREADS // self.lanes

    @property
    def blocks(self) -> int:
        """Blocks of each frame."""
        return -(-self.pixels // self.per_block)


@dataclass(frozen=True, slots=True)
class ChannelNormKernel:
    """The kernel for one device, dtype, vector and number of packs."""

    module: driver.Module

    def normalise(
        self, frames: tuple[Tensor, Tensor], grid: ChannelNormGrid, gamma: Tensor, silu: bool
    ) -> None:
        """Write frames[0], normalised and times gamma [C], into frames[1]."""
        x, out = frames
        factors = build.as_factors(gamma)
        arguments = (
            *(
                pointer(x),
                FrameStrides.of(x),
                pointer(out),
                FrameStrides.of(out),
                FrameShape.of(grid),
            ),
            *(pointer(factors), ctypes.c_float(SHORTEST), ctypes.c_int(silu)),
        )
        where = (grid.blocks, grid.frames, 1), (grid.lanes, grid.rows, 1), 0
        self.module.launch("rms_norm", where, arguments)


def grid_for(shape: torch.Size, vector: int, processors: int) -> ChannelNormGrid:
    """The grid for frames [T, C, H, W] on a GPU with so many processors."""
    frames, channels, height, width = shape
    lanes, packs = lanes_and_packs(channels // vector)
    rows = _THREADS // lanes
    enough = processors * _BLOCKS_A_PROCESSOR * rows
    steps = min(_MOST_STEPS, -(-frames * height * width // enough))
    return ChannelNormGrid(
        frames=frames,
        width=width,
        pixels=height * width,
        channels=channels,
        vector=vector,
        lanes=lanes,
        packs=packs,
        per_block=rows * steps,
    )


def lanes_and_packs(reads: int) -> tuple[int, int]:
    """Lanes of a pixel and packs of each lane for so many reads; 0, 0: too many.

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
    if t > _MOST_FRAMES or height * width > _MOST_PIXELS:
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
    kernel = _load(x.device, x.dtype, vector, grid.packs)
    return None if kernel is None else (kernel, grid)


def working(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the kernel works on a device in a dtype: compiles and equals PyTorch; tried once."""
    vector = build.LOAD_BYTES // dtype.itemsize
    return build.is_gpu(device) and _load(device, dtype, vector, 3) is not None


@cache
def _load(
    device: torch.device, dtype: torch.dtype, vector: int, packs: int
) -> ChannelNormKernel | None:
    """The compiled kernel; None, with one warning in the log, if it does not work."""
    return build.checked(
        ("channel norm", device, dtype),
        lambda: _compile(device, dtype, vector, packs),
        lambda kernel: _error(kernel, device, dtype, (vector, packs)),
    )


def _compile(
    device: torch.device, dtype: torch.dtype, vector: int, packs: int
) -> ChannelNormKernel:
    options = build.macros(dtype, VECTOR=vector, PACKS=packs)
    return ChannelNormKernel(build.compiled(device, "channel_norm", options))


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
        packs=packs,
        per_block=_THREADS // 2,
    )
    kernel.normalise((box, buffer[:2, :, 1:20, :17]), shape, gamma, True)
    return float((buffer.double() - wanted).abs().max() / wanted.abs().max())
