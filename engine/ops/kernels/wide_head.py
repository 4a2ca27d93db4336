"""Attention with one head of 384 or 512 channels in half precision: wide_head.cu.

Flash kernels of torch end at 256 channels; its memory-efficient one keeps sums of wider heads in
memory. The PyTorch reference is `engine.ops.attention.single_head.attend_in_chunks`; tests run the
same source on the CPU. Not yet run on a GPU.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.ops.kernels import build, driver
from engine.ops.kernels.grids import MOST_FRAMES
from engine.ops.launches import pieces

_DTYPE = torch.float16
_QUERIES = 64  # QUERIES of the source, likewise below
_DEPTH = 64
_STEP_KEYS = 16
_WARP_CHANNELS = 64
_MOST_SHARED = 64 * 1024  # bytes that every GPU since Turing gives a block
_MOST_ROWS = 2**31 - 2**10


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Macros of the source, and what a launch has to know of them."""

    channels: int
    keys: int  # keys of a block of scores
    warps_down: int  # parts of the queries among the warps that compute scores

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.channels // _WARP_CHANNELS * 32

    @property
    def slot_bytes(self) -> int:
        """Bytes of a step: queries and keys of some channels, or values of some keys."""
        return 2 * max((_QUERIES + self.keys) * _DEPTH, _STEP_KEYS * self.channels)

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights of all queries, and of a float for each query and part of a row."""
        parts = self.channels // _WARP_CHANNELS // self.warps_down
        return _QUERIES * (2 * self.keys + 16) + 4 * _QUERIES * (parts + 1)

    @property
    def slots(self) -> int:
        """Buffers for steps: 2 or 3."""
        return min(3, (_MOST_SHARED - self.weights_bytes) // self.slot_bytes)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block."""
        return self.slots * self.slot_bytes + self.weights_bytes

    def options(self) -> tuple[str, ...]:
        """Macros of the source."""
        return build.macros(
            _DTYPE,
            CHANNELS=self.channels,
            KEYS=self.keys,
            WARPS_DOWN=self.warps_down,
            SLOTS=self.slots,
        )


# SeedVR2 and Wan 2.1. Wider heads would keep their sums in memory, as torch does.
PROGRAMS = {
    512: Program(channels=512, keys=64, warps_down=4),
    384: Program(channels=384, keys=96, warps_down=2),
}


class _Frames(ctypes.Structure):
    _fields_ = (
        ("first", ctypes.c_void_p),
        ("frame", ctypes.c_longlong),
        ("row", ctypes.c_longlong),
    )

    @classmethod
    def of(cls, frames: Tensor) -> _Frames:
        return cls(frames.data_ptr(), *frames.stride()[:2])


@dataclass(frozen=True, slots=True)
class WideHeadKernel:
    """A compiled program."""

    module: driver.Module
    program: Program

    def attend(self, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        """softmax(scale * q k') v.

        Args:
            q: [T, Q, C], which `find` has accepted, as the others.
            k: [T, L, C].
            v: [T, L, C].
            scale: Factor of the scores, above zero.

        Returns:
            [T, Q, C], contiguous.
        """
        frames, queries, channels = q.shape
        keys, out = k.shape[1], q.new_empty(q.shape)
        arguments: tuple[driver.Argument, ...] = (
            *map(_Frames.of, (q, k, v, out)),
            ctypes.c_int(queries),
            ctypes.c_int(keys),
            ctypes.c_float(scale),
        )
        of_frame = -(-queries // _QUERIES)
        operations = 4 * _QUERIES * keys * channels  # of a block
        most = pieces("attention", frames * of_frame, operations, q.device, q.dtype)
        together = min(MOST_FRAMES, max(1, most // of_frame))
        threads, shared = (self.program.threads, 1, 1), self.program.shared_bytes
        for frame in range(0, frames, together):
            for block in range(0, of_frame, most):
                blocks = min(most, of_frame - block), min(together, frames - frame), 1
                begin = ctypes.c_int(frame), ctypes.c_int(block)
                self.module.launch("attend", (blocks, threads, shared), (*arguments, *begin))
        return out


def _error(
    kernel: WideHeadKernel, device: torch.device, dtype: torch.dtype, sizes: tuple[int, int]
) -> float:
    """Largest error relative to the largest value: two frames, blocks that are not full.

    Scores are uneven, and a row of NaN follows the last one of each frame.
    """
    channels = sizes[1]
    random = torch.Generator().manual_seed(1)
    whole = torch.randn(2, 2 * _QUERIES, 3 * channels, generator=random).mul_(1.5)
    whole[:, -1] = torch.nan
    exact = whole.to(dtype)[:, :-1].double().chunk(3, dim=-1)
    q, k, v = whole.to(device, dtype)[:, :-1].chunk(3, dim=-1)
    scale = channels**-0.5
    found = kernel.attend(q[:, :-7], k, v, scale).cpu()
    wanted = torch.softmax(exact[0][:, :-7] @ exact[1].transpose(1, 2) * scale, -1) @ exact[2]
    return float((found - wanted).abs().max() / wanted.abs().max())


class _Family(build.KernelFamily[WideHeadKernel]):
    """Kernels by their channels."""

    def compile(
        self, device: torch.device, dtype: torch.dtype, vector: int, second: int
    ) -> WideHeadKernel:
        """The kernel of PROGRAMS for heads of some channels, not tried yet."""
        program = PROGRAMS[second]
        options = program.options()
        return WideHeadKernel(build.compiled(device, self.name, options), program)


KERNELS = _Family(
    "wide head",
    "wide_head",
    "CHANNELS",
    lambda module: WideHeadKernel(module, PROGRAMS[512]),
    _error,
    lambda vector: 512,
    (_DTYPE,),
)
working = KERNELS.working


def find(q: Tensor, k: Tensor, v: Tensor) -> WideHeadKernel | None:
    """The kernel for q, k and v; None: it cannot read them, or does not work here."""
    channels, vector = q.shape[2], build.vector_width(q, k, v)
    if channels not in PROGRAMS or q.dtype != _DTYPE or not build.is_gpu(q.device):
        return None
    reads = vector * q.element_size() == build.LOAD_BYTES
    fits = k.numel() > 0 and max(q.shape[1], k.shape[1]) <= _MOST_ROWS
    return KERNELS.load(q.device, q.dtype, vector, channels) if reads and fits else None
