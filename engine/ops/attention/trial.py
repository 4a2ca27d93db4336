"""Whether a backend works on a device: it is run on small data and held against the formula."""

from __future__ import annotations

import logging
import warnings
from functools import cache

import torch
from torch import Tensor

from engine.ops.attention.backend import Backend
from engine.ops.attention.crash_guard import Guard

_log = logging.getLogger(__name__)

# Largest relative RMS error that rounding explains; TF32 too in float32.
_LIMITS = {
    torch.float64: 1e-10,
    torch.float32: 2e-3,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
}
_INEXACT_LIMIT = 0.3  # beyond it not even an inexact backend computes attention
# Windows, heads, queries, keys: less and more than a block of kernels; not all tokens ask.
_SHAPES = ((2, 3, 77, 77), (1, 2, 275, 333))
Shape = tuple[int, int, int, int]


@cache
def fault_of(backend: Backend, device: torch.device, dtype: torch.dtype, head_dim: int) -> str:
    """Why a backend does not work here; empty if it does. Tried once, then remembered."""
    guard = Guard(backend, device)
    if guard.has_fallen:
        return "the program ended while trying it the last time"
    try:
        with guard:
            error = max(error_of(backend, device, dtype, head_dim, shape) for shape in _SHAPES)
    except Exception as err:  # noqa: BLE001 - errors of optional packages have no common base
        reason = reason_of(err, backend)
        _log.debug("attention backend %s on %s: %s", backend.name, device, reason)
        return reason
    if not error <= (_LIMITS[dtype] if backend.is_exact else _INEXACT_LIMIT):  # NaN is wrong too
        _log.warning("attention backend %s is wrong on %s by %.1e", backend.name, device, error)
        return f"it computes wrongly here (error {error:.1e})"
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
        backend: What to run; what it raises goes on.
        device: Where.
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
    """q, k and v [N, heads, L, d] float32 as windows hand them over: [N, L, heads, d] in memory.

    Fewer queries than keys are the first ones of a window.

    Scores are uneven, keys have a mean and single channels that are large, as in trained models.
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
    """Why a backend failed, as one clause for people."""
    if isinstance(error, ModuleNotFoundError):
        return f"the package {backend.package} is not installed ({error})"
    line = str(error).strip().partition("\n")[0].partition(". ")[0]
    return line.rstrip(".")[:160] or type(error).__name__
