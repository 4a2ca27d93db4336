"""Linear layers with the sizes and bias of nn.Linear and the weight in another format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.ops.kernels import quantize

_ROWS = 2048  # tokens at a time: enough for most devices, with bounded memory


class QuantizedLinear(nn.Module, ABC):
    """A linear layer whose weight is dequantised for each call.

    Its state is in parameters and buffers, so that it is loaded and streamed as any module. Do not
    convert it by `to(dtype)`: that would dequantise some formats for good.

    Args:
        in_features: Last dimension of the input.
        out_features: Last dimension of the output.
        bias: Whether there is one; it is in the compute dtype.

    Attributes:
        weight: The weight in its stored format.
        bias: [out_features] or None.
        kernels: Whether CUDA kernels may dequantise the weight, and round the input of a product.
    """

    kernels = True
    weight: Tensor
    bias: nn.Parameter | None

    def __init__(self, in_features: int, out_features: int, *, bias: bool) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        empty = torch.empty(out_features) if bias else None
        self.bias = None if empty is None else nn.Parameter(empty, requires_grad=False)
        self._keeps = False
        self._wide: Tensor | None = None

    @abstractmethod
    def dense_weight(self, dtype: torch.dtype) -> Tensor:
        """The weight [out_features, in_features] in `dtype`, a copy."""

    def wide_weight(self, dtype: torch.dtype) -> Tensor:
        """The dense weight, read-only; inside `widened` it is computed once."""
        if self._wide is not None and self._wide.dtype == dtype:
            return self._wide
        wide = self.dense_weight(dtype)
        self._wide = wide if self._keeps else None
        return wide

    def forward(self, x: Tensor) -> Tensor:
        """[..., in_features] to [..., out_features], in the dtype of x.

        Memory: the weight in that dtype, for the time of the call.
        """
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(x, self.wide_weight(x.dtype), bias)

    def _keep(self, weight: Tensor) -> None:
        self.weight = nn.Parameter(weight, requires_grad=False)


class ProductLinear(QuantizedLinear):
    """A linear layer that multiplies in a narrow format: the input is rounded too.

    Attributes:
        multiple: Both dimensions of the weight must be multiples of it.
        rows_of_kernels: Tokens at a time where CUDA kernels round them, which need less memory.
    """

    multiple = 1
    rows_of_kernels = _ROWS

    @abstractmethod
    def take(self, weight: Tensor) -> None:
        """Round a weight [out_features, in_features] and keep that, on its device."""

    def scale_of(self, x: Tensor) -> Tensor | None:
        """Scale of all rows of x [N, in_features]; None: each row has its own."""
        return None

    @abstractmethod
    def multiply(self, x: Tensor, scale: Tensor | None, out: Tensor) -> None:
        """Write the product of some rows with the weight, bias included.

        Args:
            x: [n, in_features].
            scale: By `scale_of`, of all rows.
            out: [n, out_features].
        """

    def forward(self, x: Tensor) -> Tensor:
        """[..., in_features] to [..., out_features], in the dtype of x.

        Memory: 2048 rows of input and output, 4 bytes a value; no more where kernels round them.
        """
        rows = x.reshape(-1, self.in_features)
        out = x.new_empty(len(rows), self.out_features)
        scale = self.scale_of(rows) if len(rows) else None
        found = quantize.find(rows) if self.kernels else None
        most = _ROWS if found is None else self.rows_of_kernels
        for begin in range(0, len(rows), most):
            part = slice(begin, begin + most)
            self.multiply(rows[part], scale, out[part])
        return out.view(*x.shape[:-1], self.out_features)


@contextmanager
def widened(module: nn.Module, without: str = "") -> Iterator[None]:
    """Dequantise each weight of a module only once in the block: for many calls with few tokens.

    For one thread at a time; the weights must not change meanwhile.

    Args:
        module: Its quantised layers.
        without: Layers with this in their paths are left out; "": none.

    Memory: the used weights of the module in the dtype of the input. Layers that multiply in a
        narrow format are not dequantised.
    """
    found = (
        (path, one) for path, one in module.named_modules() if isinstance(one, QuantizedLinear)
    )
    layers = [one for path, one in found if not without or without not in path]
    for layer in layers:
        layer._keeps = True
    try:
        yield
    finally:
        for layer in layers:
            layer._keeps, layer._wide = False, None
