"""Convolutions with 8-bit factors, through the matrix products of `engine.ops.linear`.

An experiment: `bench vae-8bit` measures what they cost, and docs/benchmarks/vae-8bit.md says why
no model uses them. torch has no such convolution, so the values that an output sees are put side by
side as a row, some lines of a frame at a time, and rows are multiplied by the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.ops.kernels.quantize import TINY
from engine.ops.linear.eight_bit import (
    LARGEST_E4M3,
    LARGEST_INT8,
    Fp8Product,
    Int8Product,
    rounded_e4m3,
    rounded_int8,
    scale_e4m3,
)

PIECE_BYTES = 32 * 2**20  # of rows at a time, one byte a value

Convolution = nn.Conv2d | nn.Conv3d

_PRODUCTS: dict[str, type[Fp8Product | Int8Product]] = {"int8": Int8Product, "fp8": Fp8Product}


@dataclass(frozen=True, slots=True)
class EightBit:
    """How the factors of a convolution are rounded; each output channel has a scale of its own.

    Attributes:
        product: A format of `engine.ops.linear.formats`: "fp8" is e4m3.
        scales: Of what is convolved: one for all frames of a call, or one for each output position.
        imitated: Multiply the same rounded values in float32: for processors, where such products
            are slow or missing.
    """

    product: Literal["int8", "fp8"]
    scales: Literal["tensor", "row"]
    imitated: bool = False

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.product}, {self.scales}"


class EightBitConv:
    """A convolution over frames whose factors have 8 bits; sums are exact or in float32.

    Args:
        weight: [O, I, K, kh, kw], or [O, I, kh, kw] for K = 1.
        bias: [O], or None.
        stride: Over time, height and width.
        padding: Zeros on each side of time, height and width.
        how: Of the rounding.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        stride: tuple[int, int, int],
        padding: tuple[int, int, int],
        how: EightBit,
    ) -> None:
        weight = weight.unsqueeze(2) if weight.ndim == 4 else weight
        self._how, self._stride, self._padding = how, stride, padding
        self._outer, self._kernel = weight.shape[0], tuple(weight.shape[2:])
        matrix = weight.movedim(1, -1).flatten(1).float()
        self._values = matrix.shape[1]
        layer = _PRODUCTS[how.product]
        short = [-side % layer.multiple for side in reversed(matrix.shape)]
        matrix = F.pad(matrix, (0, short[0], 0, short[1]))
        self._channels = torch.ones(len(matrix), device=weight.device)
        if how.product == "fp8":  # int8 has a scale for each row of weights
            self._channels = matrix.abs().amax(1).clamp_min_(TINY)
        self._bias = torch.zeros_like(self._channels)
        if bias is not None:
            self._bias[: self._outer] = bias
        self._layer = layer(matrix.shape[1], matrix.shape[0], bias=False).to(weight.device)
        self._layer.take(matrix / self._channels[:, None])
        if how.product == "int8":
            self._layer.bias = nn.Parameter(self._bias, requires_grad=False)

    @property
    def rounded_weight(self) -> Tensor:
        """The weight [O, I, K, kh, kw] as it is multiplied, float64."""
        kept = self._layer.dense_weight(torch.float32)[: self._outer, : self._values].double()
        scaled = kept * self._channels[: self._outer].double()[:, None]
        return scaled.view(self._outer, *self._kernel, -1).movedim(-1, 1)

    def apply(self, clip: Tensor) -> Tensor:
        """Convolve [C, T, H, W] to [C', T', H', W'], channels innermost in memory.

        Memory: the result, the padded clip, with "tensor" in one byte a value too, and some lines
            of rows: 32 MiB of one byte a value, or one line where that is more; three times that
            for "row" in half precision; and four bytes for each of their results.
        """
        time, height, width = self._padding
        sides = (0, 0, width, width, height, height, time, time)
        frames = F.pad(clip.movedim(0, -1), sides).contiguous()
        values, scale = self._codes(frames) if self._how.scales == "tensor" else (frames, None)
        windows = self._windows(values)
        steps, lines, columns = windows.shape[:3]
        result = clip.new_empty(steps, lines, columns, self._outer)
        for step, some in self._pieces(steps, lines, columns):
            rows = self._rows(windows[step, some])
            codes, of_rows = self._codes(rows) if scale is None else (rows, scale)
            found = self._multiply(codes, of_rows, result.dtype)[:, : self._outer]
            result[step, some] = found.view(-1, columns, self._outer)
        return result.movedim(-1, 0)

    def _windows(self, frames: Tensor) -> Tensor:
        """What each output sees, a view [T', H', W', K, kh, kw, I] of [T, H, W, I]."""
        bare = frames.view(torch.int8) if frames.dtype.itemsize == 1 else frames
        for axis, (size, step) in enumerate(zip(self._kernel, self._stride, strict=True)):
            bare = bare.unfold(axis, size, step)
        return bare.movedim(3, -1)

    def _pieces(self, steps: int, lines: int, columns: int) -> Iterator[tuple[int, slice]]:
        most = max(1, PIECE_BYTES // (columns * self._layer.in_features))
        for step in range(steps):
            for first in range(0, lines, most):
                yield step, slice(first, first + most)

    def _rows(self, windows: Tensor) -> Tensor:
        """Rows [N, in] of some lines, with zeros up to the width that the layer takes."""
        rows, missing = windows.reshape(-1, self._values), self._layer.in_features - self._values
        rows = F.pad(rows, (0, missing)) if missing else rows
        return rows.view(self._layer.weight.dtype) if rows.dtype.itemsize == 1 else rows

    def _codes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Values rounded to 8 bits, and their scale: [] or, of rows [N, in], [N, 1] float32."""
        by_row = self._how.scales == "row"
        if self._how.product == "int8":
            if by_row:
                return rounded_int8(x)
            scale = _largest(x).div_(LARGEST_INT8)
            return (x / scale).round_().to(torch.int8), scale
        if not by_row:
            scale = scale_e4m3(x)
            return rounded_e4m3(x.view(-1, x.shape[-1]), scale).view(x.shape), scale
        scale = x.abs().amax(1, keepdim=True).float().clamp_min_(TINY).div_(LARGEST_E4M3)
        return rounded_e4m3(x / scale, torch.ones_like(scale[0, 0])), scale

    def _multiply(self, codes: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
        """Rows [N, in] times the weights, with the bias, [N, out]."""
        if self._how.imitated:
            sums = codes.float() @ self._layer.dense_weight(torch.float32).t()
            return torch.addcmul(self._bias, sums.mul_(scale), self._channels).to(dtype)
        out = torch.empty(len(codes), len(self._bias), device=codes.device, dtype=dtype)
        if self._how.product == "int8":
            self._layer.multiply_codes(codes, scale.expand(len(codes), 1).contiguous(), out)
            return out
        sums = torch.empty_like(out, dtype=torch.float32)
        by_row = scale.ndim > 0
        self._layer.multiply_codes(codes, torch.ones_like(scale[0, 0]) if by_row else scale, sums)
        sums = sums.mul_(scale) if by_row else sums
        return out.copy_(torch.addcmul(self._bias, sums, self._channels, out=sums))


def _largest(x: Tensor) -> Tensor:
    largest: Tensor = torch.linalg.vector_norm(x, torch.inf)
    return largest.float().clamp_min_(TINY)


def convolve_in_eight_bits(part: nn.Module, how: EightBit) -> int:
    """Let the convolutions of an encoder or decoder multiply in 8 bits, but for two.

    The first and the last one see frames and latents themselves, and stay as they are.

    Args:
        part: Its modules, in order; plain convolutions of torch or classes of it.
        how: Of the rounding.

    Returns:
        How many there are.
    """
    found = list(_convolutions(part))[1:-1]
    for one in found:
        stride, padding = (_triple(one, name) for name in ("stride", "padding"))
        conv = EightBitConv(one.weight, one.bias, stride, padding, how)
        _replace(one, partial(_in_eight_bits, conv))
    return len(found)


def add_in_float32(model: nn.Module) -> None:
    """Let convolutions in half precision add up in float32, as GPUs do.

    Processors without instructions for it take a minute for what takes a second in float32.
    """
    for one in _convolutions(model):
        _replace(one, partial(_in_float32, one._conv_forward))


def _convolutions(part: nn.Module) -> Iterator[Convolution]:
    return (one for one in part.modules() if isinstance(one, (nn.Conv2d, nn.Conv3d)))


def _replace(conv: Convolution, forward: Callable[..., Tensor]) -> None:
    """Replace what torch's own forward calls, and all that pad or keep frames before it.

    An attribute of the instance hides the method of its class: the layers around it stay those of
    the model.
    """
    vars(conv)["_conv_forward"] = forward


def _triple(conv: Convolution, name: str) -> tuple[int, int, int]:
    found = tuple(getattr(conv, name))
    usual = 1 if name == "stride" else 0
    time, height, width = found if len(found) == 3 else (usual, *found)
    return time, height, width


def _in_eight_bits(conv: EightBitConv, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """As `_conv_forward` of torch: [B, C, T, H, W] or, of single frames, [B, C, H, W]."""
    if x.ndim == 4:
        return conv.apply(x.movedim(0, 1)).movedim(1, 0)
    return torch.stack([conv.apply(clip) for clip in x])


def _in_float32(forward: Callable[..., Tensor], *given: Tensor | None) -> Tensor:
    wide = [None if one is None else one.float() for one in given]
    return forward(*wide).to(torch.float16)
