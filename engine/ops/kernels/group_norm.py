"""GroupNorm and SiLU in three kernels, and a residual sum in one: group_norm.cu.

torch gives each (frame, group) one block, too few for large frames, and reads channels-last frames
badly. Here a block takes some pixels of a frame with all their channels; a second kernel merges the
statistics of the blocks; a third writes normalised frames, for example into the ring buffer of the
next convolution. `add_residual` computes the statistics of its sum in the same pass, and the bias
of a convolution is added by the kernel that reads its result next. The PyTorch reference is
`engine.ops.norm.group_norm`; tests run the same source on the CPU.
"""

from __future__ import annotations

import ctypes
import math
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

_MOST_LANES = 512  # THREADS of the source
_USUAL_THREADS = 256
_STEPS = 4, 128  # pixels of one thread
_PART_BYTES = 12  # sizeof(Part)
_MERGING_THREADS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNormGrid(FrameGrid):
    """A grid whose neighbouring threads take `vector` channels of a pixel each."""

    group: int  # channels of a group

    @property
    def shared_bytes(self) -> int:
        """Shared memory of the statistics: a part for each row, lane and segment."""
        return self.rows * self.channels // min(self.vector, self.group) * _PART_BYTES


def grid_for(shape: torch.Size, group: int, vector: int, processors: int) -> GroupNormGrid:
    """The grid for frames [T, C, H, W] on a GPU with `processors` multiprocessors."""
    lanes = shape[1] // vector
    rows = 1 << max(0, (_USUAL_THREADS // lanes).bit_length() - 1)  # a power of two
    return GroupNormGrid.over(
        shape, _STEPS, processors, vector=vector, lanes=lanes, rows=rows, group=group
    )


def vector_of(group: int, *frames: Tensor) -> int:
    """Channels that a thread can read at once from all of these; 0: the kernels cannot read them.

    Args:
        group: Channels of a group.
        frames: [T, C, H, W] of one shape; may be views.
    """
    first = frames[0]
    t, channels, height, width = first.shape
    known = first.dtype in build.DTYPES
    strided = any(x.stride(1) != 1 and channels > 1 for x in frames)
    too_many = t > MOST_FRAMES or height * width > MOST_PIXELS
    if not first.numel() or not known or strided or too_many or channels % group:
        return 0
    vector = build.LOAD_BYTES // first.element_size()
    while vector > 1 and not _is_aligned(vector, group, frames):
        vector //= 2
    return vector if channels // vector <= _MOST_LANES else 0


def _is_aligned(vector: int, group: int, frames: tuple[Tensor, ...]) -> bool:
    if frames[0].shape[1] % vector or (group % vector and vector % group):
        return False
    return all(
        x.data_ptr() % (vector * x.element_size()) == 0
        and all(x.stride(dim) % vector == 0 for dim in (0, 2, 3) if x.shape[dim] > 1)
        for x in frames
    )


@dataclass(frozen=True, slots=True, eq=False)
class BlockStatistics:
    """Statistics of the blocks of each frame, not merged yet."""

    mean: Tensor  # [T, P, G] float32
    m2: Tensor  # [T, P, G] float32, sums of the squared deviations
    grid: GroupNormGrid  # grid of the frames
    pixels: Tensor | None = None  # [P] int32, of each block; None: as the grid divides a frame


@dataclass(frozen=True, slots=True)
class GroupNormKernels:
    """The kernels for one device, dtype, vector and size of groups."""

    module: driver.Module

    def statistics(
        self, x: Tensor, grid: GroupNormGrid, bias: Tensor | None = None
    ) -> BlockStatistics:
        """Statistics of x, or of x + bias, [C] float32."""
        found = self._room(x, grid)
        arguments = (
            *(pointer(x), FrameStrides.of(x), FrameShape.of(grid), pointer(bias)),
            *(pointer(found.mean), pointer(found.m2)),
        )
        grid.launch(self.module, "group_statistics", arguments, grid.shared_bytes)
        return found

    def add_residual(
        self, x: Tensor, change: Tensor, grid: GroupNormGrid, bias: Tensor
    ) -> BlockStatistics:
        """Add a change and a bias, [C] float32, to x in place; statistics of the sum."""
        found = self._room(x, grid)
        arguments = (
            *(pointer(x), FrameStrides.of(x), pointer(change), FrameStrides.of(change)),
            *(FrameShape.of(grid), pointer(bias), pointer(found.mean), pointer(found.m2)),
        )
        grid.launch(self.module, "add_residual", arguments, grid.shared_bytes)
        return found

    def scale_and_shift(
        self,
        found: BlockStatistics,
        affine: tuple[Tensor, Tensor],
        eps: float,
        added: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Factors of each frame and channel, [T, C] float32.

        Args:
            found: Statistics of the frames.
            affine: Weight and bias [C].
            eps: Added to the variance.
            added: [C] float32, the bias that `statistics` added and `normalise` does not add; None
                if the frames contain it.
        """
        grid = found.grid
        weight, bias = (part.float().contiguous() for part in affine)
        scale, shift = found.mean.new_empty((2, grid.frames, grid.channels))
        blocks = grid.channels // grid.group, grid.frames, 1
        shared = _MERGING_THREADS * _PART_BYTES
        arguments = (
            *(pointer(found.mean), pointer(found.m2), FrameShape.of(grid)),
            *(ctypes.c_int(found.mean.shape[1]), pointer(found.pixels)),
            *(pointer(weight), pointer(bias), pointer(added)),
            *(ctypes.c_float(eps), pointer(scale), pointer(shift)),
        )
        self.module.launch("scale_and_shift", (blocks, (1, _MERGING_THREADS, 1), shared), arguments)
        return scale, shift

    def normalise(
        self,
        frames: tuple[Tensor, Tensor],
        grid: GroupNormGrid,
        factors: tuple[Tensor, Tensor],
        silu: bool,
        kept: Tensor | None = None,
    ) -> None:
        """Write frames[0] * factors[0] + factors[1], factors [T, C] float32, into frames[1].

        The last frames are also written into `kept`, which has the same strides of rows and pixels.
        """
        x, out = frames
        step, count = (0, 0) if kept is None else (kept.stride(0), kept.shape[0])
        arguments = (
            *(pointer(x), FrameStrides.of(x), pointer(out), FrameStrides.of(out)),
            *(FrameShape.of(grid), pointer(factors[0]), pointer(factors[1]), ctypes.c_int(silu)),
            *(pointer(kept), ctypes.c_longlong(step), ctypes.c_int(grid.frames - count)),
        )
        grid.launch(self.module, "normalise", arguments, 0)

    def _room(self, x: Tensor, grid: GroupNormGrid) -> BlockStatistics:
        shape = grid.frames, grid.blocks, grid.channels // grid.group
        mean, m2 = x.new_empty((2, *shape), dtype=torch.float32)
        return BlockStatistics(mean, m2, grid)


def find(x: Tensor, groups: int, *others: Tensor) -> tuple[GroupNormKernels, GroupNormGrid] | None:
    """The kernels for frames and their grid; None where the PyTorch reference is used.

    Args:
        x: [T, C, H, W].
        groups: Divides C.
        others: Frames of the same shape and dtype that are written.
    """
    device, group = x.device, x.shape[1] // groups
    vector = vector_of(group, x, *others) if build.is_gpu(device) else 0
    kernels = KERNELS.load(device, x.dtype, vector, group) if vector else None
    if kernels is None:
        return None
    return kernels, grid_for(x.shape, group, vector, build.processors(device))


def _error(
    kernels: GroupNormKernels, device: torch.device, dtype: torch.dtype, sizes: tuple[int, int]
) -> float:
    """Largest error on a small box of random frames, relative to the largest value.

    Frames are views; the results are parts of a larger buffer whose other values must stay zero.
    """
    vector, group = sizes
    channels = 16 * math.lcm(vector, group)
    random = torch.Generator().manual_seed(1)
    frames = torch.randn(6, channels, 21, 20, generator=random).to(device, dtype)
    frames = frames.to(memory_format=torch.channels_last)
    box, change = frames[1:3, :, 2:, 3:], frames[4:, :, 2:, 3:]
    weight, bias, added = torch.randn(3, channels, generator=random).to(device)
    more = added.double()[:, None, None]
    grid = grid_for(box.shape, group, vector, 1)
    wanted = box.double() + change.double() + more
    sums = kernels.add_residual(box, change, grid, added)
    errors = [_relative_error(box, wanted)]
    for found, apart in ((sums, None), (kernels.statistics(box, grid, added), added)):
        factors = kernels.scale_and_shift(found, (weight, bias), 1e-6, apart)
        buffer = torch.zeros_like(frames, memory_format=torch.channels_last)
        inside, kept = buffer[:2, :, 1:20, :17], buffer[3:4, :, 1:20, :17]
        kernels.normalise((box, inside), grid, factors, True, kept)
        whole = box.double() if apart is None else box.double() + more
        normal = F.group_norm(whole, channels // group, weight.double(), bias.double(), 1e-6)
        wanted = torch.zeros_like(buffer, dtype=torch.float64)
        wanted[:2, :, 1:20, :17] = F.silu(normal)
        wanted[3] = wanted[1]
        errors.append(_relative_error(buffer, wanted))
    return float(torch.stack(errors).max())


def _relative_error(found: Tensor, wanted: Tensor) -> Tensor:
    return (found.double() - wanted).abs().max() / wanted.abs().max()


KERNELS = build.KernelFamily(
    "GroupNorm", "group_norm", "GROUP", GroupNormKernels, _error, lambda vector: 4
)
working = KERNELS.working
