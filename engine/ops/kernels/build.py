"""From source to kernels that are known to work on a device; what every family of kernels needs."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor

from engine.ops.kernels import driver, nvrtc

_log = logging.getLogger(__name__)

LOAD_BYTES = 16  # what a thread reads at once

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


def is_aligned(vector: int, *tensors: Tensor) -> bool:
    """Whether `vector` numbers of the last dimension can be read at once from all of these.

    Their other strides and their first number have to be multiples of it; the last stride is 1.
    """
    return all(
        x.data_ptr() % (vector * x.element_size()) == 0
        and x.shape[-1] % vector == 0
        and (x.stride(-1) == 1 or x.shape[-1] == 1)
        and all(
            stride % vector == 0
            for size, stride in zip(x.shape[:-1], x.stride()[:-1], strict=True)
            if size > 1
        )
        for x in tensors
    )


@cache
def processors(device: torch.device) -> int:
    """Streaming multiprocessors of a card."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
