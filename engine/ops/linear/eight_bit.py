"""Weights and matrix products in 8 bits: fp8 and int8.

`EightBitLinear` widens the values of a file: plain casts to fp8, or fp8, mxfp8 and int8 with
scales.
`Fp8Product` rounds its input to e4m3 too, with one scale, and multiplies in that format; the scale
is computed on the device, which never waits for the CPU. `Int8Product` has a scale for each
row of the weight and for each token: sums are exact in 32 bits, the error is the rounding of both
factors to 255 steps. It runs on CPUs too, faster than float32. Weights are widened and tokens
rounded by CUDA kernels where those work (`engine.ops.kernels.quantize`), to the same values.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops.kernels import quantize
from engine.ops.kernels.quantize import TINY, rotation, times_powers
from engine.ops.linear.quantized_linear import ProductLinear, QuantizedLinear

FP8 = {"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}
FORMATS = {**FP8, "I8": torch.int8}
_E4M3 = torch.float8_e4m3fn
LARGEST_E4M3 = torch.finfo(_E4M3).max  # 448; what is larger would become nan
_HALVES = (torch.float16, torch.bfloat16)
LARGEST_INT8 = 127
_FEWEST_ROWS = 32  # an int8 matmul on a GPU needs at least 17
LARGEST_EXPONENT = 254  # of mxfp8; 255 is no number


class EightBitLinear(QuantizedLinear):
    """A linear layer with the 8-bit values of a file.

    Args:
        in_features: Last side of the input.
        out_features: Last side of the output.
        kind: A name out of FORMATS.
        bias: Whether there is one.

    Attributes:
        weight: [out_features, in_features] of that format, as in the file.
        weight_scale: [1] or [out_features, 1] float32, or exponents as in `dequantise`; None: the
            values are not scaled.
        group: Neighbours in a row that were rotated together; 0: none were.
    """

    weight_scale: Tensor | None

    def __init__(self, in_features: int, out_features: int, kind: str, *, bias: bool) -> None:
        super().__init__(in_features, out_features, bias=bias)
        self._keep(torch.empty(out_features, in_features, dtype=FORMATS[kind]))
        self.register_buffer("weight_scale", None)
        self.group = 0

    def dense_weight(self, dtype: torch.dtype) -> Tensor:
        """The weight [out_features, in_features] in `dtype`."""
        scale, group = self.weight_scale, self.group
        return dequantise(self.weight, scale, group, dtype, kernels=self.kernels)


def dequantise(
    stored: Tensor,
    scale: Tensor | None,
    group: int,
    dtype: torch.dtype,
    *,
    kernels: bool = True,
) -> Tensor:
    """Values of a file as they were before rounding.

    Args:
        stored: [N, K] of a dtype out of FORMATS.
        scale: Float32 [1] or [N, 1], that they are multiplied by; or, of e4m3 values, uint8
            [N, K / 32], exponents of powers of two for 32 neighbours each, 127 for 1; None: not at
            all.
        group: Neighbours in a row that were rotated together, see `rotation`; 0: none were.
        dtype: Type of the result.
        kernels: Use the kernels where they can.

    Memory: the result; where values were rotated and no kernel rotates them back, twice that.
        Without a kernel a float32 for each exponent.
    """
    wide = torch.empty(stored.shape, dtype=dtype, device=stored.device)
    found = quantize.find_for_codes(stored, wide, group) if kernels else None
    if found is not None:
        found[0].widen(stored, wide, found[1], scale, group)
        return wide
    wide.copy_(stored)
    if group:
        wide = (wide.view(-1, group) @ rotation(group, wide.device, dtype)).view(wide.shape)
    if scale is None:
        return wide
    return times_powers(wide, scale) if scale.dtype == torch.uint8 else wide.mul_(scale)


def untiled(tiles: Tensor, rows: int, blocks: int) -> Tensor:
    """Exponents of mxfp8 in rows, uint8 [rows, blocks], from tiles of 128 rows and 4 blocks.

    In a tile the 32 first rows have 16 bytes each: their own 4, then those of each 32nd row below.
    """
    down, across = -(-rows // 128), -(-blocks // 4)
    places = tiles.reshape(down, across, 32, 4, 4).permute(0, 3, 2, 1, 4)
    return places.reshape(down * 128, across * 4)[:rows, :blocks].contiguous()


class Fp8Product(ProductLinear):
    """A linear layer that multiplies e4m3 values.

    Args:
        in_features: Last side of the input; a multiple of 16.
        out_features: Last side of the output; a multiple of 16.
        bias: Whether there is one.

    Attributes:
        weight: [out_features, in_features] e4m3.
        weight_scale: [] float32: scale of the weight's values.
    """

    multiple = 16
    rows_of_kernels = 8192
    weight_scale: Tensor

    def __init__(self, in_features: int, out_features: int, *, bias: bool) -> None:
        super().__init__(in_features, out_features, bias=bias)
        self._keep(torch.empty(out_features, in_features, dtype=_E4M3))
        self.register_buffer("weight_scale", torch.empty(()))

    def take(self, weight: Tensor, scale: Tensor | None = None) -> None:
        """Round a weight [out_features, in_features]; e4m3 values of a file stay as they are.

        Args:
            weight: Any floating-point dtype.
            scale: Factor of e4m3 values, float32 with one value; None: they are not scaled.
        """
        if weight.dtype == _E4M3:
            one = torch.ones((), device=weight.device)
            self.weight_scale = one if scale is None else scale.reshape(())
            self._keep(weight)
        else:
            self.weight_scale = scale_e4m3(weight)
            self._keep(rounded_e4m3(weight, self.weight_scale))

    def dense_weight(self, dtype: torch.dtype) -> Tensor:
        """The weight [out_features, in_features] in `dtype`."""
        return (self.weight.float() * self.weight_scale).to(dtype)

    def scale_of(self, x: Tensor) -> Tensor:
        """One for all of it."""
        return scale_e4m3(x)

    def multiply(self, x: Tensor, scale: Tensor | None, out: Tensor) -> None:
        """Write the matrix product of some rows."""
        scale = scale_e4m3(x) if scale is None else scale
        self.multiply_codes(rounded_e4m3(x, scale, self.kernels), scale, out)

    def multiply_codes(self, codes: Tensor, scale: Tensor, out: Tensor) -> None:
        """Product of rows [n, in_features] in e4m3, which their scale [] multiplies."""
        fused = self.bias is not None and self.bias.dtype == out.dtype and out.dtype in _HALVES
        target = out if out.dtype in _HALVES else torch.empty_like(out, dtype=torch.float32)
        torch.ops.aten._scaled_mm.out(
            codes,
            self.weight.t(),
            scale,
            self.weight_scale,
            bias=self.bias if fused else None,
            out_dtype=target.dtype,
            use_fast_accum=True,
            out=target,
        )
        if target is not out:
            out.copy_(target)
        if self.bias is not None and not fused:
            out.add_(self.bias)


def scale_e4m3(x: Tensor) -> Tensor:
    """Scale that maps the largest magnitude to that of the format: [] float32."""
    largest: Tensor = torch.linalg.vector_norm(x, torch.inf)
    return largest.float().clamp_min_(TINY).div_(LARGEST_E4M3)


def rounded_e4m3(x: Tensor, scale: Tensor, kernels: bool = True) -> Tensor:
    """Values [N, K] over a scale [] float32 in e4m3, at most 448 in size."""
    found = quantize.find(x) if kernels else None
    if found is not None:
        return found[0].to_e4m3(x, found[1], scale)
    return x.float().div(scale).clamp_(-LARGEST_E4M3, LARGEST_E4M3).to(_E4M3)


class Int8Product(ProductLinear):
    """A linear layer that multiplies in int8.

    Args:
        in_features: Last side of the input; a multiple of 8.
        out_features: Last side of the output; a multiple of 8.
        bias: Whether there is one.

    Attributes:
        weight: [out_features, in_features] int8.
        weight_scale: [out_features] float32: scale of each row's values.
    """

    multiple = 8
    rows_of_kernels = 4096
    weight_scale: Tensor

    def __init__(self, in_features: int, out_features: int, *, bias: bool) -> None:
        super().__init__(in_features, out_features, bias=bias)
        self._keep(torch.empty(out_features, in_features, dtype=torch.int8))
        self.register_buffer("weight_scale", torch.empty(out_features))

    def take(self, weight: Tensor) -> None:
        """Round a weight [out_features, in_features]."""
        rounded, scale = rounded_int8(weight)
        self.weight_scale = scale.squeeze(1)
        self._keep(rounded)

    def dense_weight(self, dtype: torch.dtype) -> Tensor:
        """The weight [out_features, in_features] in `dtype`."""
        return (self.weight * self.weight_scale[:, None]).to(dtype)

    def multiply(self, x: Tensor, scale: Tensor | None, out: Tensor) -> None:
        """Write the matrix product of some rows; every token is rounded by itself."""
        self.multiply_codes(*rounded_int8(x, self.kernels), out)

    def multiply_codes(self, codes: Tensor, scale: Tensor, out: Tensor) -> None:
        """Product of int8 rows [n, in_features], which scales [n, 1] float32 multiply."""
        count, missing = len(codes), _FEWEST_ROWS - len(codes)
        if missing > 0:
            codes = F.pad(codes, (0, 0, 0, missing))
        sums = torch._int_mm(codes, self.weight.t())[:count]
        found = quantize.find(out) if self.kernels else None
        if found is not None:
            found[0].scale_sums(sums, out, found[1], (scale, self.weight_scale, self.bias))
            return
        scaled = sums * scale
        if self.bias is None:
            torch.mul(scaled, self.weight_scale, out=out)
        else:
            torch.addcmul(self.bias.float(), scaled, self.weight_scale, out=out)


def rounded_int8(x: Tensor, kernels: bool = True) -> tuple[Tensor, Tensor]:
    """int8 values [N, K] and their scales [N, 1] float32."""
    found = quantize.find(x) if kernels else None
    if found is not None:
        return found[0].to_int8(x, found[1])
    low, high = torch.aminmax(x, dim=1, keepdim=True)
    scale = torch.maximum(-low, high).float().clamp_min_(TINY).div_(LARGEST_INT8)
    return (x / scale).round_().to(torch.int8), scale
