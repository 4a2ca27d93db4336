"""Attention of all models: softmax(q k') v by the backend that works on a device and is fastest.

A backend works where a trial run was right; versions do not count. `auto` is the fastest that was
measured on this device; inexact backends are candidates only where the caller allows them.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import torch
from torch import Tensor

from engine.core.errors import FeatureMissing
from engine.hardware.out_of_memory import is_out_of_memory
from engine.ops.attention import speed, trial
from engine.ops.attention.backends import BACKENDS

_log = logging.getLogger(__name__)

AUTO = "auto"

_REFUSED: set[tuple[str, torch.Size, torch.Size]] = set()  # windows that `auto`'s backend refused


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    backend: str = AUTO,
    scale: float | None = None,
    allow_inexact: bool = False,
) -> Tensor:
    """Attend within each window: softmax(scale q k') v.

    The first call of `auto` for a device, dtype, head dimension and rounded length measures, unless
    an earlier process did.

    Args:
        q: [N, heads, Q, d]: N windows of one shape, text tokens after the others. Any strides but
            the last; `[N, Q, heads, d]` in memory suits every backend.
        k: [N, heads, L, d].
        v: [N, heads, L, d].
        backend: A name of BACKENDS, or "auto".
        scale: Factor of the scores; None: 1 / sqrt(d).
        allow_inexact: `auto` may take a backend that rounds more than the dtype does.

    Returns:
        [N, heads, Q, d].

    Raises:
        FeatureMissing: The chosen backend does not work on this device, or not for these windows.

    Memory: the result; never all scores of a long window, whatever the backend.
    """
    where = q.device, q.dtype, q.shape[-1]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if backend == AUTO:
        name = _auto(*where, speed.rounded(k.shape[-2], q.device), allow_inexact)
        return _or_by_torch(name, (q, k, v), scale)
    require(backend, *where)
    try:
        return BACKENDS[backend].run(q, k, v, scale)
    except Exception as err:  # errors of optional packages have no common base
        if is_out_of_memory(err):
            raise
        reason = trial.reason_of(err, BACKENDS[backend])
        raise FeatureMissing(
            "attention-of-windows",
            backend=repr(backend),
            tokens=k.shape[-2],
            fault=reason,
            nearest=_nearest(backend, where),
        ) from err


def working(device: torch.device | str, dtype: torch.dtype, head_dim: int) -> tuple[str, ...]:
    """Names of the backends that work on a device, best guess first."""
    where = _full(device), dtype, head_dim
    return tuple(name for name, backend in BACKENDS.items() if not trial.fault_of(backend, *where))


def fastest(
    device: torch.device | str,
    dtype: torch.dtype,
    head_dim: int,
    length: int,
    *,
    allow_inexact: bool = False,
) -> str:
    """Backend of `auto` for windows of so many tokens: measured once for each machine."""
    device = _full(device)
    return _auto(device, dtype, head_dim, speed.rounded(length, device), allow_inexact)


def require(name: str, device: torch.device | str, dtype: torch.dtype, head_dim: int) -> None:
    """Refuse a backend that does not work on a device.

    Raises:
        FeatureMissing: The hint names the most similar one that does.
        ValueError: There is no backend of that name.
    """
    if name not in BACKENDS:
        raise ValueError(f"no attention backend is called {name!r}")
    where = _full(device), dtype, head_dim
    fault = trial.fault_of(BACKENDS[name], *where)
    if fault:
        nearest = _nearest(name, where)
        raise FeatureMissing(
            "attention-on-machine", backend=repr(name), fault=fault, nearest=nearest
        )


def error_of(
    name: str,
    device: torch.device | str,
    dtype: torch.dtype,
    head_dim: int,
    shape: trial.Shape = (1, 4, 512, 512),
) -> float:
    """RMS of a backend's error in units of the exact result's, measured now.

    Args:
        name: Of BACKENDS; its exceptions are passed on.
        device: Of the run.
        dtype: Of q, k and v.
        head_dim: Channels of a head.
        shape: Windows, heads, queries, keys.
    """
    return trial.error_of(BACKENDS[name], _full(device), dtype, head_dim, shape)


def _auto(*problem: Any) -> str:
    """As `_fastest`; by torch's own choice for now where there is no memory to measure."""
    try:
        return _fastest(*problem)
    except Exception as err:
        if not is_out_of_memory(err):
            raise
        return "sdpa"


@cache
def _fastest(
    device: torch.device, dtype: torch.dtype, head_dim: int, length: int, allow_inexact: bool
) -> str:
    found = [BACKENDS[name] for name in working(device, dtype, head_dim)]
    quick = [x for x in found if (x.is_exact or allow_inexact) and x.name != "math"]
    problem = speed.Problem(device=device, dtype=dtype, head_dim=head_dim, length=length)
    kind = "any" if allow_inexact else "exact"
    return speed.choose(problem, quick, kind) if quick else "math"  # slow, but always works


def _or_by_torch(name: str, qkv: tuple[Tensor, Tensor, Tensor], scale: float) -> Tensor:
    """By a measured backend; by torch itself where that refuses these windows."""
    kind = name, qkv[0].shape, qkv[1].shape
    if kind not in _REFUSED:
        try:
            return BACKENDS[name].run(*qkv, scale)
        except Exception as err:  # errors of optional packages have no common base
            if name == "sdpa" or is_out_of_memory(err):
                raise
            _log.warning("attention by torch's own choice, %s refuses %s: %s", *kind[:2], err)
            _REFUSED.add(kind)
    return BACKENDS["sdpa"].run(*qkv, scale)


def _nearest(name: str, where: tuple[torch.device, torch.dtype, int]) -> str:
    """The first other backend of the same family that works here, else the first; quoted."""
    others = tuple(other for other in working(*where) if other != name)
    family = name.partition("-")[0].rstrip("0123456789")
    found = next((other for other in others if other.startswith(family)), (*others, "math")[0])
    return repr(found)


def _full(device: torch.device | str) -> torch.device:
    """The device with its index, as tensors have it."""
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device
