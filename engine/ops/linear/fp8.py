"""Weights in 8-bit floating point: as files store them, and multiplied as they are.

Published fp8 files are plain casts without scales, so `Fp8Linear` only widens. `Fp8Product` rounds
what comes in to e4m3 too, one scale for all of it, and multiplies in that format; the scale is
found on the device, which never waits for the processor. Not yet run on a GPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.ops.linear.quantized_linear import ProductLinear, QuantizedLinear

FORMATS = {"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}
_E4M3 = torch.float8_e4m3fn
_LARGEST = torch.finfo(_E4M3).max  # 448; what is larger would become nan
_TINY = 1e-30  # stands for the largest value where all are zero
_HALVES = (torch.float16, torch.bfloat16)


class Fp8Linear(QuantizedLinear):
    """A linear layer whose weight takes a byte a number and is widened exactly.

    Args:
        in_features: Last side of what comes in.
        out_features: Last side of what goes out.
        kind: A name out of FORMATS.
        bias: Whether there is one.

    Attributes:
        weight: [out_features, in_features] of that format, as in the file.
    """

    def __init__(self, in_features: int, out_features: int, kind: str, *, bias: bool) -> None:
        super().__init__(in_features, out_features, bias=bias)
        self._keep(torch.empty(out_features, in_features, dtype=FORMATS[kind]))

    def dense_weight(self, dtype: torch.dtype) -> Tensor:
        """The weight [out_features, in_features] in `dtype`."""
        return self.weight.to(dtype)


class Fp8Product(ProductLinear):
    """A linear layer that multiplies e4m3 values.

    Args:
        in_features: Last side of what comes in; a multiple of 16.
        out_features: Last side of what goes out; a multiple of 16.
        bias: Whether there is one.

    Attributes:
        weight: [out_features, in_features] e4m3.
        weight_scale: [] float32: scale of the weight's values.
    """

    multiple = 16
    weight_scale: Tensor

    def __init__(self, in_features: int, out_features: int, *, bias: bool) -> None:
        super().__init__(in_features, out_features, bias=bias)
        self._keep(torch.empty(out_features, in_features, dtype=_E4M3))
        self.register_buffer("weight_scale", torch.empty(()))

    def take(self, weight: Tensor) -> None:
        """Round a weight [out_features, in_features]; e4m3 values of a file stay as they are."""
        if weight.dtype == _E4M3:
            self.weight_scale = torch.ones((), device=weight.device)
            self._keep(weight)
        else:
            self.weight_scale = _scale(weight)
            self._keep(_rounded(weight, self.weight_scale))

    def dense_weight(self, dtype: torch.dtype) -> Tensor:
        """The weight [out_features, in_features] in `dtype`."""
        return (self.weight.float() * self.weight_scale).to(dtype)

    def scale_of(self, x: Tensor) -> Tensor:
        """One for all of it."""
        return _scale(x)

    def multiply(self, x: Tensor, scale: Tensor | None, out: Tensor) -> None:
        """Write the product of some rows."""
        scale = _scale(x) if scale is None else scale
        fused = self.bias is not None and self.bias.dtype == out.dtype and out.dtype in _HALVES
        product = torch._scaled_mm(
            _rounded(x, scale),
            self.weight.t(),
            scale,
            self.weight_scale,
            bias=self.bias if fused else None,
            out_dtype=out.dtype if out.dtype in _HALVES else torch.float32,
            use_fast_accum=True,
        )
        out.copy_(product if fused or self.bias is None else product.add_(self.bias))


def _scale(x: Tensor) -> Tensor:
    """What makes the largest magnitude that of the format: [] float32."""
    low, high = torch.aminmax(x)
    return torch.maximum(-low, high).float().clamp_min_(_TINY).div_(_LARGEST)


def _rounded(x: Tensor, scale: Tensor) -> Tensor:
    return x.float().div(scale).clamp_(-_LARGEST, _LARGEST).to(_E4M3)
