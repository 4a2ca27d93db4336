"""Attention of all models: softmax(q k') v by the backend that works on a device and is fastest.

A backend works where a trial run was right; versions do not count. `auto` is the fastest that was
measured on this device, once, and kept in a file of the cache; inexact backends are candidates only
where the caller allows them.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.core import gpu_loss
from engine.core.errors import FeatureMissing
from engine.core.paths import cache_folder
from engine.core.serialization import ResultFile
from engine.hardware.out_of_memory import is_out_of_memory
from engine.ops.attention.backends import BACKENDS, Backend
from engine.ops.choices import settled
from engine.ops.trials import WORTH_IT, first_line, machine, seconds_of, trial

_log = logging.getLogger(__name__)

AUTO = "auto"
RESULTS = ResultFile("attention.json")

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
_RUNS = 5
_PACKAGES = ("flash-attn", "flash-attn-3", "xformers", "sageattention", "sageattn3")

Shape = tuple[int, int, int, int]

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
        name = _auto(*where, rounded(k.shape[-2], q.device), allow_inexact)
        return _or_by_torch(name, (q, k, v), scale)
    require(backend, *where)
    try:
        return BACKENDS[backend].run(q, k, v, scale)
    except Exception as err:  # errors of optional packages have no common base
        if is_out_of_memory(err):
            raise
        reason = reason_of(err, BACKENDS[backend])
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
    return tuple(name for name, backend in BACKENDS.items() if not fault_of(backend, *where))


def fastest(
    device: torch.device | str,
    dtype: torch.dtype,
    head_dim: int,
    length: int,
    *,
    allow_inexact: bool = False,
) -> str:
    """Backend of `auto` for windows of a number of tokens: measured once for each machine."""
    device = _full(device)
    return _auto(device, dtype, head_dim, rounded(length, device), allow_inexact)


def require(name: str, device: torch.device | str, dtype: torch.dtype, head_dim: int) -> None:
    """Refuse a backend that does not work on a device.

    Raises:
        FeatureMissing: The hint names the most similar one that does.
        ValueError: There is no backend of that name.
    """
    if name not in BACKENDS:
        raise ValueError(f"no attention backend is called {name!r}")
    where = _full(device), dtype, head_dim
    fault = fault_of(BACKENDS[name], *where)
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
    shape: Shape = (1, 4, 512, 512),
) -> float:
    """RMS of a backend's error in units of the exact result's, measured now.

    Args:
        name: Name in BACKENDS; its exceptions are passed on.
        device: Device of the run.
        dtype: Type of q, k and v.
        head_dim: Channels of a head.
        shape: Windows, heads, queries, keys.
    """
    return _error_of(BACKENDS[name], _full(device), dtype, head_dim, shape)


def _auto(
    device: torch.device, dtype: torch.dtype, head_dim: int, length: int, allow_inexact: bool
) -> str:
    """Name of the backend that the running job uses; without a job, of the fastest."""

    def fault(name: str) -> str:
        if name not in BACKENDS:
            return "it is unknown"
        return fault_of(BACKENDS[name], device, dtype, head_dim)

    return settled(
        device.type,
        "attention",
        (_kind(allow_inexact), dtype, head_dim, length),
        propose=lambda: _proposed(device, dtype, head_dim, length, allow_inexact),
        fault_of=fault,
    )


def _kind(allow_inexact: bool) -> str:
    """Word for the candidates of `auto`."""
    return "any" if allow_inexact else "exact"


def _proposed(*problem: Any) -> str:
    """Name of the fastest; torch's own choice for now where there is no memory to measure."""
    try:
        return _fastest(*problem)
    except RuntimeError as err:
        if not is_out_of_memory(err):
            raise
        return "sdpa"


@cache
def _fastest(
    device: torch.device, dtype: torch.dtype, head_dim: int, length: int, allow_inexact: bool
) -> str:
    found = [BACKENDS[name] for name in working(device, dtype, head_dim)]
    quick = [x for x in found if (x.is_exact or allow_inexact) and x.name != "math"]
    problem = Problem(device=device, dtype=dtype, head_dim=head_dim, length=length)
    return (
        fastest_of(problem, quick, _kind(allow_inexact)) if quick else "math"
    )  # slow, but always works


def _or_by_torch(name: str, qkv: tuple[Tensor, Tensor, Tensor], scale: float) -> Tensor:
    """Attention by a measured backend, or by torch where that refuses these windows."""
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


# --- what works


def reason_of(error: Exception, backend: Backend, *_: object) -> str:
    """Why a backend failed, as one clause for users."""
    if isinstance(error, ModuleNotFoundError):
        return f"the package {backend.package} is not installed ({error})"
    return first_line(error).partition(". ")[0]


def _limit(backend: Backend, _: torch.device, dtype: torch.dtype, head_dim: int) -> float:
    return _LIMITS[dtype] if backend.is_exact else _INEXACT_LIMIT


@trial(_limit, Exception, words=reason_of, level=logging.DEBUG)  # packages' have no common base
def fault_of(backend: Backend, device: torch.device, dtype: torch.dtype, head_dim: int) -> float:
    """Why a backend does not work on a device; empty if it does. Tried once.

    Raises:
        torch.OutOfMemoryError, RuntimeError: There is no memory to try it.
    """
    guard = CrashGuard(backend, device)
    if guard.has_crashed:
        raise RuntimeError("the program crashed when it was last tested")
    with guard:
        return max(_error_of(backend, device, dtype, head_dim, shape) for shape in _SHAPES)


def _error_of(
    backend: Backend,
    device: torch.device,
    dtype: torch.dtype,
    head_dim: int,
    shape: Shape,
) -> float:
    """Root mean square of the error in units of that of the exact result.

    Args:
        backend: Its exceptions are passed on.
        device: Device of the run.
        dtype: Type of q, k and v.
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


# --- which is fastest


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Attention that is measured."""

    device: torch.device
    dtype: torch.dtype  # dtype of q, k and v
    head_dim: int  # channels of a head
    length: int  # tokens of a window, a power of two

    @property
    def key(self) -> str:
        """Everything that could change the result, as text."""
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{_here(self.device)}, {dtype}, heads of {self.head_dim}, {self.length} tokens"

    def sample(self) -> tuple[Tensor, Tensor, Tensor]:
        """Random q, k and v that fill the device, in the layout of windows."""
        tokens, heads = (8192, 16) if self.device.type == "cuda" else (512, 2)
        windows = max(1, tokens // self.length)
        shape = 3, windows, self.length, heads, self.head_dim
        q, k, v = torch.randn(shape, device=self.device, dtype=self.dtype).transpose(2, 3)
        return q, k, v


def rounded(length: int, device: torch.device) -> int:
    """The measured length for a length: a power of two that is quick to measure."""
    most = 4096 if device.type == "cuda" else 1024
    return min(most, max(64, 1 << round(math.log2(length))))


def fastest_of(problem: Problem, candidates: Sequence[Backend], kind: str) -> str:
    """Name of the fastest of some backends that work; the first, unless another is clearly faster.

    Args:
        problem: Sizes to measure with, if the answer is not known yet.
        candidates: Best guess first.
        kind: Word for the candidates; each kind has its own answer in the file.

    Raises:
        torch.OutOfMemoryError, RuntimeError: No memory to measure; that is no verdict.
    """
    names = [backend.name for backend in candidates]
    if len(names) == 1:
        return names[0]
    key = f"{problem.key}, {kind}"
    known = RESULTS.get(key)
    if known.get("of") == names and known.get("fastest") in names:
        return str(known["fastest"])
    seconds = measure(problem, candidates)
    fastest = min(names, key=lambda name: seconds[name])
    if not seconds[fastest] < WORTH_IT * seconds[names[0]]:
        fastest = names[0]
    milliseconds = {name: round(1000 * value, 4) for name, value in seconds.items()}
    _log.info("attention for %s: %s of %s ms", key, fastest, milliseconds)
    if min(seconds.values()) < float("inf"):
        RESULTS.put(key, {"fastest": fastest, "of": names, "milliseconds": str(milliseconds)})
    return fastest


def measure(problem: Problem, candidates: Sequence[Backend]) -> dict[str, float]:
    """Seconds of one call of each: the shortest of some after a warm-up, infinite if it fails.

    Calls of the candidates alternate, so that other load of the machine affects all alike.

    Raises:
        torch.OutOfMemoryError, RuntimeError: There is no memory for it.
    """
    found = {backend.name: float("inf") for backend in candidates}
    with torch.inference_mode():
        tensors = problem.sample()
        for turn in range(_RUNS + 1):
            for backend in candidates:
                seconds = _seconds(backend, tensors)
                found[backend.name] = min(found[backend.name], seconds if turn else float("inf"))
    return found


def _seconds(backend: Backend, tensors: tuple[Tensor, Tensor, Tensor]) -> float:
    scale = tensors[0].shape[-1] ** -0.5
    try:
        return seconds_of(lambda: backend.run(*tensors, scale), tensors[0].device)
    except Exception as err:  # errors of optional packages have no common base
        if is_out_of_memory(err) or gpu_loss.noticed(err):  # no verdict on this way
            raise
        return float("inf")


@cache
def _here(device: torch.device) -> str:
    parts = [machine(device)]
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            parts.append(f"{package} {importlib.metadata.version(package)}")
    return ", ".join(parts)
