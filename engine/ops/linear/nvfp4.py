"""Matrix products in NVIDIA's 4-bit format: e2m1, an e4m3 scale for 16 values, one for all.

`pack` and `unpack` define the format. The matmul is cuBLAS's, on GPUs of the Blackwell generation
only; the scales are laid out as it needs them, in tiles of 128 rows and 4 columns. Inputs are
rounded by torch's own operators, in many passes. Not yet run on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.functional import ScalingType, SwizzleType

from engine.ops.linear.quantized_linear import ProductLinear

GROUP = 16  # values that share a scale
_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_BETWEEN = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)  # halfway; a tie goes to the lower one
_LARGEST = 6.0
_LARGEST_SCALE = 448.0  # of e4m3
_TINY = 1e-30  # stands for the largest value where all are zero
_TILE_ROWS, _TILE_COLUMNS = 128, 4
_RECIPE = [ScalingType.BlockWise1x16, ScalingType.TensorWise]
_SWIZZLE = [SwizzleType.SWIZZLE_32_4_4, SwizzleType.NO_SWIZZLE]


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A matrix [N, K] in this format; a value is that of its code times both scales.

    Attributes:
        codes: [N, K / 2] uint8; the first of two values is in the low four bits, a sign above
            three bits of magnitude.
        scales: e4m3 [tiles of all, flat], in tiles.
        scale: [] float32.
    """

    codes: Tensor
    scales: Tensor
    scale: Tensor


class NvFp4Product(ProductLinear):
    """A linear layer that multiplies 4-bit values.

    Args:
        in_features: Last side of the input; a multiple of 32.
        out_features: Last side of the output; a multiple of 32.
        bias: Whether there is one.

    Attributes:
        weight: [out_features, in_features / 2] uint8.
        weight_scales: Flat e4m3, in tiles.
        weight_scale: [] float32.
    """

    multiple = 32
    weight_scales: Tensor
    weight_scale: Tensor

    def __init__(self, in_features: int, out_features: int, *, bias: bool) -> None:
        super().__init__(in_features, out_features, bias=bias)
        self._keep(torch.empty(out_features, in_features // 2, dtype=torch.uint8))
        count = _in_tiles(out_features, in_features // GROUP)
        self.register_buffer("weight_scales", torch.empty(count, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.empty(()))

    def take(self, weight: Tensor) -> None:
        """Round a weight [out_features, in_features]."""
        packed = pack(weight)
        self.weight_scales, self.weight_scale = packed.scales, packed.scale
        self._keep(packed.codes)

    def dense_weight(self, dtype: torch.dtype) -> Tensor:
        """The weight [out_features, in_features] in `dtype`; on any device."""
        packed = Packed(self.weight, self.weight_scales, self.weight_scale)
        return unpack(packed).to(dtype)

    def scale_of(self, x: Tensor) -> Tensor:
        """One scale for all of it, in addition to that of each group."""
        return _scale(x)

    def multiply(self, x: Tensor, scale: Tensor | None, out: Tensor) -> None:
        """Write the matrix product of some rows."""
        packed = pack(x, scale)
        product = F.scaled_mm(
            packed.codes.view(torch.float4_e2m1fn_x2),
            self.weight.view(torch.float4_e2m1fn_x2).t(),
            [packed.scales, packed.scale],
            _RECIPE,
            [self.weight_scales, self.weight_scale],
            _RECIPE,
            swizzle_a=_SWIZZLE,
            swizzle_b=_SWIZZLE,
            output_dtype=torch.bfloat16 if out.dtype == torch.bfloat16 else torch.float32,
        )
        out.copy_(product if self.bias is None else product.add_(self.bias))


def pack(x: Tensor, scale: Tensor | None = None) -> Packed:
    """Round a matrix [N, K] to the format.

    Args:
        x: K is a multiple of 32.
        scale: For all of it, [] float32; None: what makes its largest magnitude that of the format.
    """
    scale = _scale(x) if scale is None else scale
    groups = x.float().div(scale).view(len(x), -1, GROUP)
    scales = (groups.abs().amax(2) / _LARGEST).to(torch.float8_e4m3fn)
    groups = groups / scales.float().clamp_min(_TINY)[..., None]
    between = torch.tensor(_BETWEEN, device=x.device)
    codes = torch.bucketize(groups.abs(), between, out_int32=True).to(torch.uint8)
    codes = (codes | torch.signbit(groups).to(torch.uint8) << 3).view(len(x), -1, 2)
    return Packed(codes[..., 0] | codes[..., 1] << 4, into_tiles(scales), scale)


def unpack(packed: Packed) -> Tensor:
    """The values [N, K] in float32."""
    codes = torch.stack((packed.codes & 15, packed.codes >> 4), 2)
    magnitudes = torch.tensor(_MAGNITUDES, device=codes.device)
    values = magnitudes[(codes & 7).long()]
    values = torch.where(codes > 7, -values, values).view(len(codes), -1, GROUP)
    scales = out_of_tiles(packed.scales, len(codes), values.shape[1]).float()
    return (values * scales[..., None] * packed.scale).flatten(1)


def into_tiles(scales: Tensor) -> Tensor:
    """[R, C] into tiles of 128 rows and 4 columns, flat, filled up with zeros.

    In a tile the scale of row r and column c is number 16 * (r % 32) + 4 * (r // 32) + c.
    """
    rows, columns = scales.shape
    bytes_ = F.pad(scales.view(torch.uint8), (0, -columns % _TILE_COLUMNS, 0, -rows % _TILE_ROWS))
    tiles = bytes_.view(bytes_.shape[0] // _TILE_ROWS, 4, 32, -1, _TILE_COLUMNS)
    return tiles.permute(0, 3, 2, 1, 4).flatten().view(scales.dtype)


def out_of_tiles(flat: Tensor, rows: int, columns: int) -> Tensor:
    """Inverse of `into_tiles`: [rows, columns]."""
    down = -(-rows // _TILE_ROWS)
    tiles = flat.view(torch.uint8).view(down, -1, 32, 4, _TILE_COLUMNS)
    whole = tiles.permute(0, 3, 2, 1, 4).reshape(down * _TILE_ROWS, -1)
    return whole[:rows, :columns].contiguous().view(flat.dtype)


def _in_tiles(rows: int, columns: int) -> int:
    down, across = -(-rows // _TILE_ROWS), -(-columns // _TILE_COLUMNS)
    return down * _TILE_ROWS * across * _TILE_COLUMNS


def _scale(x: Tensor) -> Tensor:
    low, high = torch.aminmax(x)
    largest = torch.maximum(-low, high).float().clamp_min_(_TINY)
    return largest.div_(_LARGEST * _LARGEST_SCALE)
