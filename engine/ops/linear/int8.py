"""Matrix products in int8: a scale for each row of the weight and for each token.

Sums are exact in 32 bits; what is lost is the rounding of both sides to 255 steps. Runs on
processors too, and there in less time than float32. Not yet run on a GPU.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops.linear.quantized_linear import ProductLinear

_LARGEST = 127
_TINY = 1e-30  # stands for the largest value where all are zero
_FEWEST_ROWS = 32  # a GPU multiplies at least 17


class Int8Product(ProductLinear):
    """A linear layer that multiplies in int8.

    Args:
        in_features: Last side of what comes in; a multiple of 8.
        out_features: Last side of what goes out; a multiple of 8.
        bias: Whether there is one.

    Attributes:
        weight: [out_features, in_features] int8.
        weight_scale: [out_features] float32: scale of each row's values.
    """

    multiple = 8
    weight_scale: Tensor

    def __init__(self, in_features: int, out_features: int, *, bias: bool) -> None:
        super().__init__(in_features, out_features, bias=bias)
        self._keep(torch.empty(out_features, in_features, dtype=torch.int8))
        self.register_buffer("weight_scale", torch.empty(out_features))

    def take(self, weight: Tensor) -> None:
        """Round a weight [out_features, in_features]."""
        rounded, scale = _rounded(weight)
        self.weight_scale = scale.squeeze(1)
        self._keep(rounded)

    def dense_weight(self, dtype: torch.dtype) -> Tensor:
        """The weight [out_features, in_features] in `dtype`."""
        return (self.weight * self.weight_scale[:, None]).to(dtype)

    def multiply(self, x: Tensor, scale: Tensor | None, out: Tensor) -> None:
        """Write the product of some rows; every token is rounded by itself."""
        rounded, scale = _rounded(x)
        missing = max(0, _FEWEST_ROWS - len(x))
        sums = torch._int_mm(F.pad(rounded, (0, 0, 0, missing)), self.weight.t())
        scaled = sums[: len(x)] * scale
        if self.bias is None:
            torch.mul(scaled, self.weight_scale, out=out)
        else:
            torch.addcmul(self.bias.float(), scaled, self.weight_scale, out=out)


def _rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    """int8 values [N, K] and their scales [N, 1] float32."""
    low, high = torch.aminmax(x, dim=1, keepdim=True)
    scale = torch.maximum(-low, high).float().clamp_min_(_TINY).div_(_LARGEST)
    return (x / scale).round_().to(torch.int8), scale
