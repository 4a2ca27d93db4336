"""Tokens rounded to 8 bits, each value read once, the end of an int8 product, and 8-bit weights.

The kernels are in quantize.cu, the PyTorch references in `engine.ops.linear.eight_bit`, which are
two to nine passes over memory and as many launches; tests run the same source on the CPU.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache, partial

import torch
from torch import Tensor

from engine.ops.kernels import build, driver
from engine.ops.kernels.build import pointer
from engine.ops.kernels.grids import THREADS, Matrix, RowGrid, grid_for, rows_of

TINY = 1e-30  # stands for the largest value of a row of zeros
_E4M3 = torch.float8_e4m3fn
_BLOCK = 32  # neighbours that an exponent is for; in the source likewise
_ROTATED, _LANE = (4, 16, 64, 256), 8  # groups that a warp rotates, values of a thread
_WIDENED = {_E4M3: "widen_e4m3", torch.float8_e5m2: "widen_e5m2", torch.int8: "widen_int8"}


@lru_cache(maxsize=8)
def rotation(group: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The regular Hadamard matrix [group, group] over its norm; it is its own inverse.

    Rows of a weight are multiplied by it in groups before they are rounded, so that outliers are
    shared by neighbours (arXiv:2512.03673). `group` is a power of 4, so its values are exact.
    """
    four = 1 - 2 * torch.eye(4, dtype=torch.float64).flip(1)
    found = torch.ones(1, 1, dtype=torch.float64)
    while len(found) < group:
        found = torch.kron(found, four / 2)
    return found.to(device, dtype)


def times_powers(values: Tensor, exponents: Tensor) -> Tensor:
    """Values [N, K], multiplied in place by powers of two of 32 neighbours each.

    Args:
        values: Contiguous.
        exponents: uint8 [N, K / 32], 127 for 1.
    """
    factors = exponents.view(torch.float8_e8m0fnu).float()
    values.view(*exponents.shape, -1).mul_(factors[..., None])
    return values


@dataclass(frozen=True, slots=True)
class QuantizeKernels:
    """The kernels for one device, dtype, vector and number of packs."""

    module: driver.Module

    def to_e4m3(self, x: Tensor, grid: RowGrid, scale: Tensor) -> Tensor:
        """X [N, K] over a scale [] float32, rounded to e4m3 and at most 448 in size."""
        codes = torch.empty(x.shape, dtype=_E4M3, device=x.device)
        rows = Matrix.of(x), pointer(codes)
        grid.launch(self.module, "round_to_e4m3", rows, pointer(scale))
        return codes

    def to_int8(self, x: Tensor, grid: RowGrid) -> tuple[Tensor, Tensor]:
        """int8 values of x [N, K] and their scales [N, 1] float32."""
        codes = torch.empty(x.shape, dtype=torch.int8, device=x.device)
        scales = torch.empty(grid.rows, 1, device=x.device)
        rows, last = (Matrix.of(x), pointer(codes)), (pointer(scales), ctypes.c_float(TINY))
        grid.launch(self.module, "round_to_int8", rows, *last)
        return codes, scales

    def scale_sums(
        self,
        sums: Tensor,
        out: Tensor,
        grid: RowGrid,
        factors: tuple[Tensor, Tensor, Tensor | None],
    ) -> None:
        """Write int32 sums [N, M], times [N, 1] and [M] float32 and with a bias [M], into `out`."""
        rows, channels, bias = factors
        kept = None if bias is None else build.as_factors(bias)
        last = pointer(rows), pointer(channels), pointer(kept)
        grid.launch(self.module, "scale_sums", (pointer(sums), Matrix.of(out)), *last)

    def widen(
        self, codes: Tensor, out: Tensor, grid: RowGrid, scale: Tensor | None, group: int = 0
    ) -> None:
        """Write the values of codes [N, K], times their scale, into `out`.

        Args:
            codes: Codes that `find_for_codes` has accepted.
            out: [N, K].
            grid: Grid for it.
            scale: Float32 [1] or [N, 1]; uint8 [N, K / 32], exponents of e4m3 codes; or None.
            group: Neighbours of int8 codes that were rotated together, and are rotated back; 0:
                none were.
        """
        rows = pointer(codes), Matrix.of(out)
        if scale is not None and scale.dtype == torch.uint8:
            assert codes.dtype == _E4M3
            exponents = scale.contiguous()
            grid.launch(self.module, "widen_mxfp8", rows, pointer(exponents))
            return
        step = ctypes.c_int(0 if scale is None or scale.numel() == 1 else 1)
        kept = None if scale is None else build.as_factors(scale)
        if group:
            last = pointer(kept), step, ctypes.c_int(group)
            grid.launch(self.module, "widen_rotated", rows, *last)
        else:
            grid.launch(self.module, _WIDENED[codes.dtype], rows, pointer(kept), step)


def _error(
    kernels: QuantizeKernels, device: torch.device, dtype: torch.dtype, sizes: tuple[int, int]
) -> float:
    """Error of scaled sums relative to the largest; infinite unless all else is the reference's.

    Rows are parts of larger ones. A scale is a power of two, so that every quotient is exact.
    """
    vector, packs = sizes
    channels = vector * ((packs - 1) * THREADS + 3)
    random = torch.Generator().manual_seed(1)
    whole = torch.randn(6, channels + vector, generator=random).mul(300).to(dtype)
    whole[:, vector:].clamp_(-508, 508)[:, :1] = 508  # 127 * 4
    x = whole.to(device)[1:, vector:]
    wanted, grid = whole[1:, vector:].float(), grid_for(x.shape, vector, 1)
    codes = kernels.to_e4m3(x, grid, torch.tensor(0.5, device=device))
    exact = (wanted / 0.5).clamp(-448, 448).to(_E4M3)
    integers, scales = kernels.to_int8(x, grid)
    same = torch.equal(codes.cpu().view(torch.uint8), exact.view(torch.uint8))
    same &= torch.equal(integers.cpu(), (wanted / 4).round().to(torch.int8))
    same &= bool((scales == 4).all())
    factors = torch.rand(2, channels, generator=random).to(device)
    same &= _widens(kernels, torch.empty_like(x), grid, scales)
    same &= _widens_blocks(kernels, torch.empty_like(x), vector)
    sums, out = integers.int() * 100, torch.empty_like(x)  # less than the largest of float16
    kernels.scale_sums(sums, out, grid, (scales, factors[0], factors[1]))
    total = sums.double() * 4 * factors[0].double() + factors[1].double()
    return float((out - total).abs().max() / total.abs().max()) if same else float("inf")


def _widens(kernels: QuantizeKernels, out: Tensor, grid: RowGrid, scales: Tensor) -> bool:
    """Whether every code of each format has its value, times the scales."""
    codes = torch.arange(out.numel(), device=out.device).to(torch.uint8).view(out.shape)
    for kind in _WIDENED:
        kernels.widen(codes.view(kind), out, grid, scales)
        wanted = codes.cpu().view(kind).float().mul_(scales.cpu()).to(out.dtype)
        if not bool(torch.isclose(out.cpu(), wanted, rtol=0, atol=0, equal_nan=True).all()):
            return False
    return grid.vector != _LANE or all(_rotates(kernels, out, group) for group in _ROTATED)


def _rotates(kernels: QuantizeKernels, out: Tensor, group: int) -> bool:
    """Whether two codes in each group become what the matrix makes of them; rows are full."""
    values, grid = _full_rows(out, _LANE)
    codes = torch.zeros(values.shape)
    codes[:, ::group], codes[:, group - 1 :: group] = 64, -48
    exact = (codes.view(-1, group) @ rotation(group, codes.device, codes.dtype)).view(codes.shape)
    kernels.widen(codes.to(out.device, torch.int8), values, grid, None, group)
    return torch.equal(values.cpu(), exact.to(out.dtype))


def _widens_blocks(kernels: QuantizeKernels, out: Tensor, vector: int) -> bool:
    """Whether e4m3 codes have their values, times powers of two of 32 neighbours each."""
    values, grid = _full_rows(out, vector)
    codes = torch.arange(values.numel()).to(torch.uint8).view(values.shape).view(_E4M3)
    count = values.numel() // _BLOCK
    exponents = torch.linspace(107, 147, count).to(torch.uint8).view(len(values), -1)
    kernels.widen(codes.to(out.device), values, grid, exponents.to(out.device))
    wanted = times_powers(codes.float(), exponents).to(out.dtype)
    return bool(torch.isclose(values.cpu(), wanted, rtol=0, atol=0, equal_nan=True).all())


def _full_rows(out: Tensor, vector: int) -> tuple[Tensor, RowGrid]:
    """Room for two rows of all packs of the kernels that `out` is for, and their grid."""
    whole = vector * THREADS
    values = out.new_empty(2, whole * (1 + out.shape[1] // whole))
    return values, grid_for(values.shape, vector, 1)


KERNELS = build.KernelFamily(
    "8-bit", "quantize", "PACKS", QuantizeKernels, _error, lambda vector: 2
)
working = KERNELS.working
find = partial(rows_of, KERNELS)


def find_for_codes(
    codes: Tensor, out: Tensor, group: int = 0
) -> tuple[QuantizeKernels, RowGrid] | None:
    """Kernels for the values of codes [N, K]; None where the PyTorch reference is used.

    Args:
        codes: Contiguous; int8 where they were rotated.
        out: [N, K], their values.
        group: Number of neighbours in a row that were rotated together; 0: none were.
    """
    found = find(out)
    if found is None or not codes.is_contiguous() or codes.data_ptr() % found[1].vector:
        return None
    is_possible = group in _ROTATED and found[1].vector == _LANE and codes.dtype == torch.int8
    return found if is_possible or not group else None
