"""From source to kernels that are known to work on a device; what every family of kernels needs."""

from __future__ import annotations

import ctypes
import logging
import math
from collections.abc import Callable
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor

from engine.ops.kernels import driver, nvrtc
from engine.ops.kernels.scalars import SCALARS

_log = logging.getLogger(__name__)

LOAD_BYTES = 16  # what a thread reads at once
DTYPES: frozenset[torch.dtype] = frozenset(getattr(torch, name) for name in SCALARS)

Kernels = TypeVar("Kernels")


def is_card(device: torch.device) -> bool:
    """Whether there can be kernels on a device at all."""
    return device.type == "cuda" and torch.version.cuda is not None


def compiled(device: torch.device, text: str, options: tuple[str, ...]) -> driver.Module:
    """The kernels of a source on a card.

    Raises:
        NvrtcMissing: There is no compiler.
        CompileFailed: It refused.
        DriverFailed: The driver did.
    """
    index = torch.cuda.current_device() if device.index is None else device.index
    major, minor = torch.cuda.get_device_capability(index)
    return driver.Module(nvrtc.compile_cuda(text, f"sm_{major}{minor}", options), index)


def tried(
    what: tuple[str, torch.device, torch.dtype],
    make: Callable[[], Kernels],
    error: Callable[[Kernels], float],
) -> Kernels | None:
    """Kernels that were run; None, with one warning in the log, if they do not work.

    Args:
        what: Name, device and dtype for the log and the limit.
        make: Compiles them.
        error: Runs them on something small; the largest error beside the largest number.
    """
    name, device, dtype = what
    try:
        kernels = make()
        found = error(kernels)
    except (nvrtc.NvrtcMissing, nvrtc.CompileFailed, driver.DriverFailed) as err:
        _log.warning("no %s kernel for %s on %s: %s", name, dtype, device, err)
        return None
    if not found <= 2 * max(torch.finfo(dtype).eps, 1e-6):  # so that NaN is wrong too
        _log.warning("%s kernel for %s is wrong on %s by %g", name, dtype, device, found)
        return None
    return kernels


def pointer(tensor: Tensor | None) -> ctypes.c_void_p:
    """Where the numbers of a tensor are, as a kernel's argument; null for None."""
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def as_factors(tensor: Tensor) -> Tensor:
    """Numbers in float32, side by side, as kernels read what few channels or angles there are."""
    if tensor.dtype == torch.float32 and tensor.is_contiguous():
        return tensor
    return tensor.float().contiguous()


def widest(*tensors: Tensor) -> int:
    """Numbers of the last dimension that a thread can read at once from all of these.

    At most 16 bytes, a power of two; 0: their dtypes or devices differ, or the numbers of the last
    dimension do not lie side by side.
    """
    first = tensors[0]
    if first.dtype not in DTYPES or not first.numel():
        return 0
    size = first.element_size()
    vector = LOAD_BYTES // size
    for x in tensors:
        *strides, last = x.stride()
        if last != 1 or x.dtype != first.dtype or x.device != first.device:
            return 0
        vector = math.gcd(vector, x.data_ptr() // size, x.shape[-1], *strides)
    return vector


@cache
def processors(device: torch.device) -> int:
    """Streaming multiprocessors of a card."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
