"""Norm and rotation of q and k, and copying q, k and v into windows, in one kernel: heads.cu.

The PyTorch reference is `engine.ops.attention.qk_rope`; tests run the same source on the CPU.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.ops.kernels import build, driver
from engine.ops.kernels.build import pointer

_THREADS = 256  # THREADS of the source
_MOST_LANES = 32  # a warp
_MOST_UNITS = 2**31 - 1 - _THREADS  # heads of all tokens
_MOST_COPIES = 65_535  # blockIdx.y

Triple = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class HeadWork:
    """Arguments of one launch."""

    qkv: Tensor  # [N, 3, heads, d]
    target: Tensor  # [W, N] int64: rows that each token is copied to
    angles: tuple[Tensor, Tensor] | None  # cos and sin [A, P]; None: no rotation
    angle: Tensor | None  # [N] int64: the row of the angles of each token; None: in order
    norm: tuple[Tensor, Tensor]  # weights of q and k [d]
    eps: float  # added to the mean of the squares
    out: Triple  # q, k and v, [M, heads, d]


class _Tokens(ctypes.Structure):
    _fields_ = (
        *(("first", ctypes.c_void_p), ("token", ctypes.c_longlong), ("part", ctypes.c_longlong)),
        *(("head", ctypes.c_longlong), ("count", ctypes.c_int), ("heads", ctypes.c_int)),
    )

    @classmethod
    def of(cls, qkv: Tensor) -> _Tokens:
        return cls(qkv.data_ptr(), *qkv.stride()[:3], qkv.shape[0], qkv.shape[2])


class _Rows(ctypes.Structure):
    _fields_ = (
        *(("first", ctypes.c_void_p), ("row", ctypes.c_longlong)),
        ("head", ctypes.c_longlong),
    )

    @classmethod
    def of(cls, rows: Tensor) -> _Rows:
        return cls(rows.data_ptr(), *rows.stride()[:2])


class _Targets(ctypes.Structure):
    _fields_ = (("target", ctypes.c_void_p), ("pitch", ctypes.c_longlong))


class _Angles(ctypes.Structure):
    _fields_ = (
        *(("cos", ctypes.c_void_p), ("sin", ctypes.c_void_p)),
        *(("row", ctypes.c_void_p), ("pairs", ctypes.c_int)),
    )


class _Norm(ctypes.Structure):
    _fields_ = (("q", ctypes.c_void_p), ("k", ctypes.c_void_p), ("eps", ctypes.c_float))


@dataclass(frozen=True, slots=True)
class HeadKernel:
    """The kernel for one device, dtype, vector and number of lanes."""

    module: driver.Module

    def gather_qk(self, work: HeadWork, lanes: int) -> None:
        """Launch on the current stream; the work must fit (`vector_of`)."""
        tables = [build.as_factors(part) for part in work.angles or ()]
        weights = [build.as_factors(part) for part in work.norm]
        arguments = (
            _Tokens.of(work.qkv),
            _Targets(work.target.data_ptr(), work.target.stride(0)),
            _angles(tables, work.angle),
            _Norm(weights[0].data_ptr(), weights[1].data_ptr(), work.eps),
            *map(_Rows.of, work.out),
        )
        units = work.qkv.shape[0] * work.qkv.shape[2]
        blocks = -(-units * lanes // _THREADS), work.target.shape[0], 1
        self.module.launch("gather_qk", (blocks, (_THREADS, 1, 1), 0), arguments)


def _angles(tables: list[Tensor], rows: Tensor | None) -> _Angles:
    if not tables:
        return _Angles(None, None, None, 0)
    which = pointer(rows)
    return _Angles(tables[0].data_ptr(), tables[1].data_ptr(), which, tables[0].shape[1])


def vector_of(work: HeadWork) -> int:
    """Channels that a thread can read at once; 0: the kernel cannot do this work."""
    tokens, _, heads, channels = work.qkv.shape
    if tokens * heads > _MOST_UNITS or not 0 < work.target.shape[0] <= _MOST_COPIES:
        return 0
    indices = [work.target] if work.angle is None else [work.target, work.angle]
    if any(index.dtype != torch.int64 or index.stride(-1) != 1 for index in indices):
        return 0
    vector = build.vector_width(work.qkv, *work.out)
    lanes = channels // max(1, vector)
    fits = vector > 1 and lanes <= _MOST_LANES and lanes & (lanes - 1) == 0
    return vector if fits else 0


def find(work: HeadWork) -> tuple[HeadKernel, int] | None:
    """The kernel for this work and its lanes; None where the PyTorch reference is used."""
    device = work.qkv.device
    vector = vector_of(work) if build.is_gpu(device) else 0
    if not vector:
        return None
    lanes = work.qkv.shape[-1] // vector
    kernel = KERNELS.load(device, work.qkv.dtype, vector, lanes)
    return None if kernel is None else (kernel, lanes)


def _error(
    kernel: HeadKernel, device: torch.device, dtype: torch.dtype, sizes: tuple[int, int]
) -> float:
    """Largest error on a few tokens, relative to the largest value; unused rows must stay zero.

    Two heads, two places for each token, the last pair of channels not rotated.
    """
    channels, count = sizes[0] * sizes[1], 5
    random = torch.Generator().manual_seed(1)
    qkv = torch.randn(count, 3, 2, channels, generator=random).to(device, dtype)
    weights = torch.rand(2, channels, generator=random).to(device)
    angles = torch.randn(3, channels // 2 - 1, generator=random).to(device)
    angle = torch.tensor([2, 0, 1, 2, 0], device=device)
    target = torch.randperm(12, generator=random)[:10].view(2, count).to(device)
    q, k, v = torch.zeros(3, 12, 2, channels, dtype=dtype, device=device)
    turns = angles.cos(), angles.sin()
    out, norm = (q, k, v), (weights[0], weights[1])
    kernel.gather_qk(HeadWork(qkv, target, turns, angle, norm, 1e-5, out), sizes[1])
    error = 0.0
    for which, found in enumerate(out):
        wanted = torch.zeros_like(found, dtype=torch.float64)
        exact = qkv[:, which].double()
        if which < 2:
            exact = _reference(exact, weights[which].double(), angles[angle].double())
        wanted[target[0]] = wanted[target[1]] = exact
        error = max(error, float((found.double() - wanted).abs().max() / wanted.abs().max()))
    return error


def _reference(x: Tensor, weight: Tensor, angles: Tensor) -> Tensor:
    """Norm and rotation of [n, heads, d] in float64."""
    x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight
    rotary = 2 * angles.shape[1]
    even, odd = x[..., 0:rotary:2], x[..., 1:rotary:2]
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    rotated = torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)
    return torch.cat((rotated, x[..., rotary:]), -1)


KERNELS = build.KernelFamily(
    "q, k, v", "heads", "LANES", HeadKernel, _error, lambda vector: 128 // vector
)
working = KERNELS.working
