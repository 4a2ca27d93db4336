"""Trial of a backend on a device: compared with the formula, and guarded against crashes."""

from __future__ import annotations

import contextlib
import logging
import warnings
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from engine.core.paths import cache_folder
from engine.hardware.out_of_memory import is_out_of_memory
from engine.ops.attention.backends import Backend

_log = logging.getLogger(__name__)

# Largest relative RMS error that rounding explains; TF32 too in float32.
_LIMITS = {
    torch.float64: 1e-10,
    torch.float32: 2e-3,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}
_INEXACT_LIMIT = 0.3  # beyond it not even an inexact backend computes attention
# Windows, heads, queries, keys: less and more than a block of kernels; fewer queries than keys.
_SHAPES = ((2, 3, 77, 77), (1, 2, 275, 333))
Shape = tuple[int, int, int, int]


@cache
def fault_of(backend: Backend, device: torch.device, dtype: torch.dtype, head_dim: int) -> str:
    """Why a backend does not work on a device; empty if it does. Tried once.

    Raises:
        torch.OutOfMemoryError, RuntimeError: There is no memory to try it.
    """
    guard = CrashGuard(backend, device)
    if guard.has_crashed:
        return "the program crashed when it was last tested"
    try:
        with guard:
            error = max(error_of(backend, device, dtype, head_dim, shape) for shape in _SHAPES)
    except Exception as err:  # errors of optional packages have no common base
        if is_out_of_memory(err):  # it may pass: no verdict, and nothing is remembered
            raise
        reason = reason_of(err, backend)
        _log.debug("attention backend %s on %s: %s", backend.name, device, reason)
        return reason
    if not error <= (_LIMITS[dtype] if backend.is_exact else _INEXACT_LIMIT):  # NaN is wrong too
        _log.warning("attention backend %s is wrong on %s by %.1e", backend.name, device, error)
        return f"it computes wrong results (error {error:.1e})"
    return ""


def error_of(
    backend: Backend,
    device: torch.device,
    dtype: torch.dtype,
    head_dim: int,
    shape: Shape,
) -> float:
    """Root mean square of the error in units of that of the exact result.

    Args:
        backend: Its exceptions are passed on.
        device: Of the run.
        dtype: Of q, k and v.
        head_dim: Channels of a head.
        shape: Windows, heads, queries, keys.
    """
    q, k, v = (x.to(device, dtype) for x in sample(shape, head_dim))
    before = [x.clone() for x in (q, k, v)]
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns why a kernel does not fit, before it raises
        found = backend.run(q, k, v, head_dim**-0.5)
    if found.shape != q.shape or found.dtype != dtype:
        raise ValueError(f"the result is {tuple(found.shape)} {found.dtype}")
    if not all(torch.equal(x, old) for x, old in zip((q, k, v), before, strict=True)):
        raise ValueError("it changes what it is given")
    wanted = literal(q.double().cpu(), k.double().cpu(), v.double().cpu(), head_dim**-0.5)
    error = found.double().cpu() - wanted
    return float(error.square().mean().sqrt() / wanted.square().mean().sqrt())


def sample(shape: Shape, head_dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v [N, heads, L, d] float32, in memory [N, L, heads, d] as those of windows.

    Fewer queries than keys are the first ones of a window. Scores are uneven, keys have a mean and
    single large channels, as in trained models.
    """
    windows, heads, queries, length = shape
    random = torch.Generator().manual_seed(1)
    q, k, v = torch.randn(3, windows, length, heads, head_dim, generator=random)
    offset = torch.randn(heads, head_dim, generator=random)
    offset[:, 0] = 6.0
    q = 1.5 * q[:, :queries]
    return q.transpose(1, 2), (k + offset).transpose(1, 2), (v + 0.5).transpose(1, 2)


def literal(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """softmax(scale q k') v, with all scores in memory."""
    return torch.softmax(q @ k.transpose(-1, -2) * scale, dim=-1) @ v


def reason_of(error: Exception, backend: Backend) -> str:
    """Why a backend failed, as one clause for users."""
    if isinstance(error, ModuleNotFoundError):
        return f"the package {backend.package} is not installed ({error})"
    line = str(error).strip().partition("\n")[0].partition(". ")[0]
    return line.rstrip(".")[:160] or type(error).__name__


class CrashGuard:
    """Creates a file while an optional package runs for the first time, so that a crash is noticed.

    Attributes:
        has_crashed: The process ended, or its GPU was lost, inside this guard before, with the same
            GPU and the same torch.
    """

    def __init__(self, backend: Backend, device: torch.device) -> None:
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        self._text = f"{backend.package} on {name}, torch {torch.__version__}"
        self._path = cache_folder() / f"attention-trying-{backend.name}"
        self._is_needed = bool(backend.package)
        self._device = device
        self.has_crashed = self._is_needed and _read(self._path) == self._text

    def __enter__(self) -> None:
        if self._is_needed:
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._path.write_text(self._text, encoding="utf-8")

    def __exit__(self, *_: object) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)  # raises when the GPU is lost: the file stays
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def _read(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        return path.read_text(encoding="utf-8")
    return ""
