"""Sources of kernels, compiling them, and trying them on a device: what all of them share."""

from __future__ import annotations

import ctypes
import logging
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import resources
from typing import Generic, TypeVar

import torch
from torch import Tensor

from engine.ops.choices import uses
from engine.ops.kernels import driver, nvrtc

_log = logging.getLogger(__name__)

LOAD_BYTES = 16  # of one read of a thread
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
VALUELESS = torch.device("meta")
"""Stands for a GPU where programs are measured: kernels are found there and not launched."""
_INCLUDE = re.compile(r'#include "([\w.]+)"')

Kernels = TypeVar("Kernels")
MissingKernels = Callable[[str, str], None]
"""Receives the title of kernels that do not work, and why."""


def is_gpu(device: torch.device) -> bool:
    """Whether a device can run CUDA kernels."""
    return device == VALUELESS or (device.type == "cuda" and torch.version.cuda is not None)


@cache
def source(name: str) -> str:
    """CUDA source of a family of kernels: `<name>.cu` of this package with its includes.

    It is one string, so that the cache of compiled kernels depends on all of it.
    """
    file = f"{name}.cu"
    lines = [f'#line 1 "{file}"']
    for number, line in enumerate(_text(file).splitlines(), 1):
        included = _INCLUDE.fullmatch(line)
        if included is None:
            lines.append(line)
        else:
            header = included[1]
            lines += [f'#line 1 "{header}"', _text(header), f'#line {number + 1} "{file}"']
    return "\n".join([*lines, ""])


def _text(file: str) -> str:
    return (resources.files("engine.ops.kernels") / file).read_text(encoding="utf-8")


def macros(dtype: torch.dtype, **values: int) -> tuple[str, ...]:
    """Options of the compiler: the scalar type and other macros of a source."""
    scalar = str(dtype).removeprefix("torch.").upper()
    return (f"-DSCALAR_{scalar}", *(f"-D{name}={value}" for name, value in values.items()))


def compiled(device: torch.device, name: str, options: tuple[str, ...]) -> driver.Module:
    """A family of kernels on a GPU.

    Args:
        device: A device of torch.
        name: Name of the source; see `source`.
        options: See `macros`.

    Raises:
        NvrtcMissing: There is no compiler.
        CompileFailed: The compiler refused the source.
        DriverFailed: The driver refused the kernels.
        torch.OutOfMemoryError: No memory to load them.
    """
    if device == VALUELESS:
        return _NotLaunched()
    index = torch.cuda.current_device() if device.index is None else device.index
    major, minor = torch.cuda.get_device_capability(index)
    return driver.Module(nvrtc.compile_cuda(source(name), f"sm_{major}{minor}", options), index)


class _NotLaunched(driver.Module):
    """Kernels for tensors without values."""

    def __init__(self) -> None:
        """Load nothing."""

    def launch(self, *_: object) -> None:
        """Do nothing."""


@dataclass(slots=True)
class _Missing:
    """Kernels that failed in this process, and the listener of a job that has to do without."""

    reasons: dict[tuple[str, torch.device, torch.dtype], str] = field(default_factory=dict)
    listener: MissingKernels | None = None


_missing = _Missing()


@contextmanager
def reporting_missing(listener: MissingKernels) -> Iterator[None]:
    """Tell a listener whenever work inside has to do without kernels that failed on its device.

    It is called in the thread that computes, again for each call of an operator.
    """
    before, _missing.listener = _missing.listener, listener
    try:
        yield
    finally:
        _missing.listener = before


def report_missing(title: str, device: torch.device, dtype: torch.dtype) -> None:
    """Report kernels that are not used now, if the reason is that they failed."""
    reason = _missing.reasons.get((title, device, dtype))
    if reason is not None and _missing.listener is not None:
        _missing.listener(title, reason)


def checked(
    what: tuple[str, torch.device, torch.dtype],
    make: Callable[[], Kernels],
    error: Callable[[Kernels], float],
) -> Kernels | None:
    """Kernels that were compiled and run; None, with one warning in the log, if they do not work.

    Args:
        what: Name, device and dtype, for the log and the tolerance.
        make: Compiles them.
        error: Runs them on small tensors; the largest error relative to the largest value.

    Raises:
        torch.OutOfMemoryError: There is no memory to try them: that is no verdict on them.
    """
    name, device, dtype = what
    if device == VALUELESS:
        return make()
    try:
        kernels = make()
        found = error(kernels)
    except (nvrtc.NvrtcMissing, nvrtc.CompileFailed, driver.DriverFailed) as err:
        _log.warning("no %s kernel for %s on %s: %s", name, dtype, device, err)
        _missing.reasons[what] = str(err)
        return None
    if not found <= 2 * max(torch.finfo(dtype).eps, 1e-6):  # so that NaN is wrong too
        _log.warning("%s kernel for %s is wrong on %s by %g", name, dtype, device, found)
        _missing.reasons[what] = f"its error is {found:g}"
        return None
    _log.info("%s kernel for %s works on %s, error %g", name, dtype, device, found)
    return kernels


class KernelFamily(Generic[Kernels]):
    """Kernels of one source: compiled and tried once for each device, dtype and pair of sizes."""

    def __init__(
        self,
        title: str,
        name: str,
        second: str,
        kernels: Callable[[driver.Module], Kernels],
        error: Callable[[Kernels, torch.device, torch.dtype, tuple[int, int]], float],
        usual: Callable[[int], int],
        dtypes: tuple[torch.dtype, ...] = DTYPES,
        variant: str = "",
    ) -> None:
        """Everything that differs between families.

        Args:
            title: Words for the log.
            name: Name of the source.
            second: Name of the macro beside VECTOR, the values that a thread reads at once.
            kernels: Makes what launches the kernels of a module.
            error: Runs them on small tensors of a device, a dtype and sizes; see `checked`.
            usual: Value of the second macro, by VECTOR, for `working`.
            dtypes: Types of values that there are kernels for.
            variant: A further macro of the source; "" for none.
        """
        self._variant = {variant: 1} if variant else {}
        self.title, self.name, self.second, self.kernels = title, name, second, kernels
        self.error, self.usual, self.dtypes = error, usual, dtypes
        self._tried = cache(self._try)

    def load(
        self, device: torch.device, dtype: torch.dtype, vector: int, second: int
    ) -> Kernels | None:
        """The compiled kernels; None if they do not work, or if the job does not use them.

        Raises:
            ChoiceMissing: The job uses them, and they do not work here.
        """
        kernels = partial(self._tried, device, dtype, vector, second)

        def fault() -> str:
            return "" if kernels() is not None else "it cannot be compiled, or is wrong"

        about = self.title, dtype, vector, second
        found = kernels() if uses(device.type, "kernel", about, fault) else None
        if found is None:
            report_missing(self.title, device, dtype)
        return found

    def _try(
        self, device: torch.device, dtype: torch.dtype, vector: int, second: int
    ) -> Kernels | None:
        """The compiled kernels; None, with one warning in the log, if they do not work."""
        return checked(
            (self.title, device, dtype),
            lambda: self.compile(device, dtype, vector, second),
            lambda kernels: self.error(kernels, device, dtype, (vector, second)),
        )

    def compile(
        self, device: torch.device, dtype: torch.dtype, vector: int, second: int
    ) -> Kernels:
        """The kernels, not tried yet; raises as `compiled`."""
        options = self.options(dtype, vector, second)
        return self.kernels(compiled(device, self.name, options))

    def options(self, dtype: torch.dtype, vector: int, second: int) -> tuple[str, ...]:
        """Options of the compiler for a dtype and a pair of sizes."""
        return macros(dtype, VECTOR=vector, **{self.second: second}, **self._variant)

    def working(self, device: torch.device, dtype: torch.dtype) -> bool:
        """Whether they work on a device in a dtype, tried with 16 bytes a read.

        Where they do not, there is one warning in the log and the PyTorch reference is used.
        """
        if not is_gpu(device) or dtype not in self.dtypes:
            return False
        vector = LOAD_BYTES // dtype.itemsize
        return self.load(device, dtype, vector, self.usual(vector)) is not None

    def cache_clear(self) -> None:
        """Forget all trials: for tests."""
        self._tried.cache_clear()


def pointer(tensor: Tensor | None) -> ctypes.c_void_p:
    """Address of a tensor as an argument of a kernel; null for None."""
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def as_factors(tensor: Tensor) -> Tensor:
    """A small tensor of factors or angles as kernels read it: float32, contiguous."""
    if tensor.dtype == torch.float32 and tensor.is_contiguous():
        return tensor
    return tensor.float().contiguous()


def vector_width(*tensors: Tensor) -> int:
    """Values of the last dimension that a thread can read at once from all of these.

    At most 16 bytes, a power of two; 0: their dtypes or devices differ, or the last dimension is
    not contiguous.
    """
    if any(x.dtype != tensors[0].dtype for x in tensors):
        return 0
    return mixed_width(*tensors)


def mixed_width(*tensors: Tensor) -> int:
    """Values like those of `vector_width`, of several dtypes: 16 bytes of the narrowest."""
    if not tensors[0].numel():
        return 0
    vector = LOAD_BYTES // min(x.element_size() for x in tensors)
    for x in tensors:
        *strides, last = x.stride()
        if last != 1 or x.dtype not in DTYPES or x.device != tensors[0].device:
            return 0
        vector = math.gcd(vector, x.data_ptr() // x.element_size(), x.shape[-1], *strides)
    return vector


@cache
def processors(device: torch.device) -> int:
    """Streaming multiprocessors of a GPU."""
    if device == VALUELESS:
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
