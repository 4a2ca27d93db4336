"""Limits of single launches: Windows restarts the driver of a GPU that does not answer for 2 s.

What a launch takes is not known before it ran, so a slow one is assumed: a share of the GPU's
specified rate that even poor algorithms reach. The first launches of a shape are slower still where
cuDNN tries its algorithms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal

import torch

from engine.hardware import gpu_table
from engine.ops.kernels.build import VALUELESS

Kind = Literal["convolution", "attention"]

LONGEST_S = 0.5  # of a launch
# Share of the rate of the units that compute, in half precision those of matrices: a third of what
# convolutions are planned with, two thirds of what attention with one wide head is.
_SLOW: dict[Kind, float] = {"convolution": 0.25, "attention": 0.1}
_TRIED = 10  # times as long as a slow launch takes an algorithm that cuDNN tries, at most
_HALF = (torch.float16, torch.bfloat16)


def pieces(
    kind: Kind, steps: int, operations: float, device: torch.device, dtype: torch.dtype
) -> int:
    """Most equal steps that one launch may compute; at least 1.

    Args:
        kind: Kind of the launch.
        steps: Number of all.
        operations: Floating-point operations of one; a multiply-add is two.
        device: Device that computes; only GPUs have a limit.
        dtype: Type of the values.
    """
    most = most_operations(kind, device, dtype)
    return steps if steps * operations <= most else max(1, int(most / operations))


@cache
def most_operations(kind: Kind, device: torch.device, dtype: torch.dtype) -> float:
    """Floating-point operations of a launch that takes at most LONGEST_S even if it is slow.

    A GPU of no table computes as the median of its generation, by its multiprocessors.
    """
    if device.type != "cuda" or device == VALUELESS:
        return math.inf
    about = torch.cuda.get_device_properties(device)
    gpu = gpu_table.counted_gpu(
        gpu_table.find(about.name, about.total_memory),
        torch.cuda.get_device_capability(device),
        about.multi_processor_count,
    )
    is_half = dtype in _HALF and not (dtype is torch.bfloat16 and gpu.capability < (8, 0))
    return LONGEST_S * _SLOW[kind] * (gpu.half_flops if is_half else gpu.single_flops)


@contextmanager
def trials_bounded(operations: float, device: torch.device, dtype: torch.dtype) -> Iterator[None]:
    """Inside, cuDNN tries no algorithms for a call whose operations may take long with one.

    It then takes the algorithm that its own tables name.
    """
    cudnn: Any = torch.backends.cudnn
    most = most_operations("convolution", device, dtype)
    if not cudnn.benchmark or _TRIED * operations <= most:
        yield
        return
    cudnn.benchmark = False
    try:
        yield
    finally:
        cudnn.benchmark = True
