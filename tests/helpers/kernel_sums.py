"""Sums of the convolution kernel on the processor, fast enough for VAEs of published sizes.

`HostModule` runs the kernel's own source, instruction by instruction. Here are its sums alone
(kernel_sums.cpp): the same products in the same order, rounded where matrix units round. A test
compares the two bit by bit.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.helpers.program import compiled, compiled_folder

_SOURCE = Path(__file__).with_suffix(".cpp")
_ACROSS = 16  # PAIR * LANES of the source


class _Sizes(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_int)
        for name in (
            *("frames", "height", "width", "channels"),
            *("steps", "rows", "columns", "outer"),
            *("reach", "tap_rows", "tap_columns"),
            *("time_stride", "stride", "zeros"),
            *("chunk", "depth", "promote"),
        )
    )


@cache
def _library() -> Any:
    options = "-O3", "-march=native", "-fopenmp", "-ffp-contract=fast"
    return ctypes.CDLL(str(compiled(compiled_folder(), _SOURCE.read_text("utf-8"), *options)))


def kernel_sums(
    clip: Tensor,
    weight: Tensor,
    *,
    strides: tuple[int, int],
    chunk: int,
    promote: int,
    zeros: int = 0,
    depth: int = 16,
) -> Tensor:
    """Convolution of a clip as the kernel adds it up, before bias, residual sum and rounding.

    Args:
        clip: [T, C, H, W] with its past and its margins; values of half precision in any dtype.
        weight: [O, C, K, kh, kw], likewise.
        strides: Over time and over space.
        chunk: See `Program.chunk`.
        promote: See `Program.promote`.
        zeros: First frames, which are zeros that the kernel leaves out.
        depth: Products of an instruction: 16, on GPUs before Ampere 8.

    Returns:
        [T', O, H', W'] float32.
    """
    count, inner, *sides = clip.shape
    outer, _, reach, *kernel = weight.shape
    channels, lanes = -(-inner // chunk) * chunk, -(-outer // _ACROSS) * _ACROSS
    x = F.pad(clip.double().permute(0, 2, 3, 1), (0, channels - inner)).contiguous()
    packed = weight.new_zeros((lanes, channels, reach, kernel[0] * kernel[1]), dtype=torch.float32)
    packed[:outer, :inner] = weight.flatten(3)
    packed = packed.view(-1, _ACROSS, channels // chunk, chunk, reach, packed.shape[3])
    packed = packed.permute(0, 4, 2, 5, 3, 1).contiguous()
    steps = (count - reach) // strides[0] + 1
    rows, columns = ((n - k) // strides[1] + 1 for n, k in zip(sides, kernel, strict=True))
    out = torch.empty(steps, rows, columns, lanes)
    sizes = _Sizes(
        *(count, *sides, channels),
        *(steps, rows, columns, lanes),
        *(reach, *kernel),
        *(*strides, zeros),
        *(chunk, depth, promote),
    )
    addresses = (ctypes.c_void_p(one.data_ptr()) for one in (x, packed, out))
    _library().kernel_sums(*addresses, ctypes.byref(sizes))
    return out[..., :outer].permute(0, 3, 1, 2)
