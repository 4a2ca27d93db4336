"""Weights in the blocks of GGUF files, unpacked on the device when they are used.

Values are computed in float32 and rounded once to the compute dtype: on a GPU by the kernels of
`engine.ops.kernels.blocks` where they work, elsewhere by operators of torch, to the same bits.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.ops.kernels import blocks
from engine.ops.kernels.block_formats import BLOCKS
from engine.ops.linear.quantized_linear import QuantizedLinear

_CACHED_VALUES = 2**18  # unpacked at a time, so that a core keeps them in its cache
_VALUES_ON_DEVICE = 2**24  # elsewhere: 64 MiB of float32, a few times over


class GgufLinear(QuantizedLinear):
    """A linear layer whose weight is in blocks; they are never all unpacked for longer than a call.

    Args:
        in_features: Last side of the input.
        out_features: Last side of the output.
        kind: A name out of BLOCKS.
        bias: Whether there is one.

    Attributes:
        weight: Blocks uint8 [rows, bytes of a row] as in the file; rows may be cut elsewhere than
            in the model, only their order counts.
    """

    def __init__(self, in_features: int, out_features: int, kind: str, *, bias: bool) -> None:
        super().__init__(in_features, out_features, bias=bias)
        self.kind = kind
        block = BLOCKS[kind]
        count = in_features * out_features // block.values
        rows = out_features if in_features % block.values == 0 else count
        shape = rows, count // rows * block.bytes
        self.weight = nn.Parameter(torch.empty(shape, dtype=torch.uint8), requires_grad=False)

    def dense_weight(self, dtype: torch.dtype) -> Tensor:
        """The weight [out_features, in_features] in `dtype`."""
        shape = self.out_features, self.in_features
        return dequantise(self.weight, self.kind, shape, dtype, kernels=self.kernels)


def dequantise(
    raw: Tensor,
    kind: str,
    shape: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
    *,
    kernels: bool = True,
) -> Tensor:
    """Unpack blocks.

    Args:
        raw: uint8, blocks one after the other, whatever its shape.
        kind: A name out of BLOCKS.
        shape: Shape of the result.
        dtype: Type of the result; computed in float32.
        kernels: Use the kernels where they can.

    Returns:
        A tensor on the device of `raw`.

    Memory: the result; without kernels also a bounded number of values in float32 (1 MiB on a
        CPU).
    """
    block = BLOCKS[kind]
    out = torch.empty(shape, dtype=dtype, device=raw.device)
    found = blocks.find(raw, out) if kernels else None
    if found is not None:
        found.unpack(kind, raw, out)
        return out
    packed, values = raw.reshape(-1, block.bytes), out.view(-1, block.values)
    at_once = _CACHED_VALUES if raw.device.type == "cpu" else _VALUES_ON_DEVICE
    step = at_once // block.values
    for begin in range(0, len(packed), step):
        part = slice(begin, begin + step)
        values[part] = block.unpack(packed[part])
    return out
