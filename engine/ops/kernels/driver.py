"""Loads compiled kernels and launches them through the CUDA driver.

All work is done in torch's own (primary) context of the device and on torch's current stream, so
kernels keep their order with torch's.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

_NAME = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
_SHARED_MEMORY = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_USUAL_SHARED = 48 * 1024  # bytes of a block; more has to be asked for

Argument = ctypes.c_void_p | ctypes.c_int | ctypes.c_longlong | ctypes.c_float | ctypes.Structure
Size3 = tuple[int, int, int]


class DriverFailed(RuntimeError):
    """There is no driver, or it refused; the message is its own."""


class Driver:
    """The driver's library; a call that fails raises DriverFailed with the driver's message.

    A lack of memory may pass, so it is torch.OutOfMemoryError: callers plan with less and try
    again, and nothing is remembered of it.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self.call("cuInit", 0)

    def call(self, name: str, *args: object) -> None:
        """Call a function of the driver."""
        code = getattr(self._library, name)(*args)
        if code == _OUT_OF_MEMORY:
            raise torch.OutOfMemoryError(f"{name}: {self._message(code)}")
        if code:
            raise DriverFailed(f"{name}: {self._message(code)}")

    def _message(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(code, ctypes.byref(text))
        return text.value.decode() if text.value else f"error {code}"


class Module:
    """Kernels that are loaded on one device."""

    def __init__(self, cubin: bytes, device: int) -> None:
        self.device = device
        self._module = ctypes.c_void_p()
        self._functions: dict[str, ctypes.c_void_p] = {}
        with _context(device) as driver:
            driver.call("cuModuleLoadData", ctypes.byref(self._module), cubin)

    def launch(
        self, name: str, grid: tuple[Size3, Size3, int], arguments: Sequence[Argument]
    ) -> None:
        """Launch a kernel on torch's current stream.

        Args:
            name: Name of the kernel.
            grid: Blocks, threads of a block, bytes of shared memory.
            arguments: In the kernel's order and types.

        Raises:
            DriverFailed: No such kernel, or the grid is too large for the device.
            torch.OutOfMemoryError: No memory for the kernel's code or its stack.
        """
        blocks, threads, shared = grid
        stream = ctypes.c_void_p(torch.cuda.current_stream(self.device).cuda_stream)
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        with _context(self.device) as driver:
            function = self._function(driver, name, shared)
            where = (*blocks, *threads, shared, stream)
            driver.call("cuLaunchKernel", function, *where, pointers, None)

    def _function(self, driver: Driver, name: str, shared: int) -> ctypes.c_void_p:
        """A kernel that may have this much shared memory, always the same."""
        if name not in self._functions:
            function = ctypes.c_void_p()
            driver.call("cuModuleGetFunction", ctypes.byref(function), self._module, name.encode())
            if shared > _USUAL_SHARED:
                driver.call("cuFuncSetAttribute", function, _SHARED_MEMORY, shared)
            self._functions[name] = function
        return self._functions[name]


@cache
def driver() -> Driver:
    """The driver of this machine.

    Raises:
        DriverFailed: There is none.
    """
    try:
        return Driver(ctypes.CDLL(_NAME))
    except OSError as err:
        raise DriverFailed(f"no NVIDIA driver: {err}") from err


@contextmanager
def _context(device: int) -> Iterator[Driver]:
    """Makes torch's context of the device current in this thread while the block runs."""
    found = driver()
    found.call("cuCtxPushCurrent_v2", _primary(device))
    try:
        yield found
    finally:
        found.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


@cache
def _primary(device: int) -> ctypes.c_void_p:
    """The context that torch uses too; kept until the process ends."""
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    driver().call("cuDeviceGet", ctypes.byref(handle), device)
    driver().call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    return context
