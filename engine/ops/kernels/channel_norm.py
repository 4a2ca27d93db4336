"""RMS norm of each position over its channels and SiLU on a card: every number is read once.

A few threads take a pixel together and keep its channels in registers between the sum and the
result, which goes wherever it is wanted, for example into the window of the next convolution. The
twin is `engine.ops.norm.rms_norm`; tests run this very source on the processor. Not yet run on
a GPU.
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
from engine.ops.kernels.channel_norm_source import source
from engine.ops.kernels.frames import Shape, View

_THREADS = 256  # THREADS of the source
_MOST_LANES = 32  # of a pixel: they exchange sums within a warp
_MOST_PACKS = 8  # so that a thread's channels and their factors stay in registers
_MOST_PIXELS = 2**30  # of one frame, so that counting them stays inside 32 bits
_MOST_FRAMES = 65_535  # blockIdx.y
_MOST_STEPS = 64  # pixels of one thread
_BLOCKS_A_PROCESSOR = 16
SHORTEST = 1e-12  # a position is never divided by less, so that one of zeros stays one of zeros


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """How frames are dealt out to blocks and threads.

    Attributes:
        frames: T.
        width: Pixels of a row.
        pixels: Of a frame.
        channels: C.
        vector: Channels that a thread reads at once.
        lanes: Threads side by side on one pixel, a power of two.
        packs: How often each of them reads.
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
        """Pixels that a block works on at the same time."""
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
        self, frames: tuple[Tensor, Tensor], grid: Grid, gamma: Tensor, silu: bool
    ) -> None:
        """Write frames[0], normalised and times gamma [C], into frames[1]."""
        x, out = frames
        factors = build.as_factors(gamma)
        arguments = (
            *(pointer(x), View.of(x), pointer(out), View.of(out), Shape.of(grid)),
            *(pointer(factors), ctypes.c_float(SHORTEST), ctypes.c_int(silu)),
        )
        where = (grid.blocks, grid.frames, 1), (grid.lanes, grid.rows, 1), 0
        self.module.launch("rms_norm", where, arguments)


def grid_for(shape: torch.Size, vector: int, processors: int) -> Grid:
    """The grid for frames [T, C, H, W] on a card with so many processors."""
    frames, channels, height, width = shape
    lanes, packs = dealt(channels // vector)
    rows = _THREADS // lanes
    enough = processors * _BLOCKS_A_PROCESSOR * rows
    steps = min(_MOST_STEPS, -(-frames * height * width // enough))
    return Grid(
        frames=frames,
        width=width,
        pixels=height * width,
        channels=channels,
        vector=vector,
        lanes=lanes,
        packs=packs,
        per_block=rows * steps,
    )


def dealt(reads: int) -> tuple[int, int]:
    """Lanes of a pixel and packs of each for so many reads; 0, 0: too many.

    As few lanes idle as can be, then as many lanes as can be.
    """
    ways = []
    lanes = 1
    while lanes <= _MOST_LANES:
        packs = -(-reads // lanes)
        if packs <= _MOST_PACKS:
            ways.append((lanes * packs, -lanes, packs))
        lanes *= 2
    _, lanes, packs = min(ways, default=(0, 0, 0))
    return -lanes, packs


def vector_of(*frames: Tensor) -> int:
    """Channels that a thread can read at once from all of these; 0: they do not fit at all.

    Args:
        frames: [T, C, H, W] of one shape; views will do.
    """
    t, channels, height, width = frames[0].shape
    if t > _MOST_FRAMES or height * width > _MOST_PIXELS:
        return 0
    vector = build.widest(*(x.permute(0, 2, 3, 1) for x in frames))
    return vector if vector and dealt(channels // vector)[0] else 0


def find(*frames: Tensor) -> tuple[ChannelNormKernel, Grid] | None:
    """The kernel for frames [T, C, H, W] and their grid; None where the twin has to do."""
    x = frames[0]
    vector = vector_of(*frames) if build.is_card(x.device) else 0
    if not vector:
        return None
    grid = grid_for(x.shape, vector, build.processors(x.device))
    kernel = _load(x.device, x.dtype, vector, grid.packs)
    return None if kernel is None else (kernel, grid)


@cache
def working(device: torch.device) -> bool:
    """Whether the kernel compiles here and equals plain torch; tried once, then remembered."""
    if not build.is_card(device):
        return False
    return all(
        _load(device, dtype, build.LOAD_BYTES // dtype.itemsize, 3) for dtype in build.DTYPES
    )


@cache
def _load(
    device: torch.device, dtype: torch.dtype, vector: int, packs: int
) -> ChannelNormKernel | None:
    """The kernel compiled for these and tried; None, with one warning, if it does not work."""
    return build.tried(
        ("channel norm", device, dtype),
        lambda: _compile(device, dtype, vector, packs),
        lambda kernel: _error(kernel, device, dtype, (vector, packs)),
    )


def _compile(
    device: torch.device, dtype: torch.dtype, vector: int, packs: int
) -> ChannelNormKernel:
    text = source(str(dtype).removeprefix("torch."))
    options = f"-DVECTOR={vector}", f"-DPACKS={packs}"
    return ChannelNormKernel(build.compiled(device, text, options))


def _error(
    kernel: ChannelNormKernel, device: torch.device, dtype: torch.dtype, sizes: tuple[int, int]
) -> float:
    """How far a small box of random frames comes from plain torch, beside the largest number.

    The box is a view with a position of zeros, and so is the part of the larger buffer that it is
    written into; numbers written beside that part count too.
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
    shape = Grid(
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
