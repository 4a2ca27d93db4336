"""Which backend is the fastest on a device: measured once, and kept in a file of the cache."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from engine.core import gpu_loss
from engine.hardware.out_of_memory import is_out_of_memory
from engine.ops.attention.backends import Backend
from engine.ops.trial_results import ResultFile, machine, seconds_of

_log = logging.getLogger(__name__)

RESULTS = ResultFile("attention.json")

_WORTH_IT = 0.97  # a backend takes at most this share of the time of the first, or that one stays
_RUNS = 5
_PACKAGES = ("flash-attn", "flash-attn-3", "xformers", "sageattention", "sageattn3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is measured.

    Attributes:
        device: Where.
        dtype: Of q, k and v.
        head_dim: Channels of a head.
        length: Tokens of a window, a power of two.
    """

    device: torch.device
    dtype: torch.dtype
    head_dim: int
    length: int

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


def choose(problem: Problem, candidates: Sequence[Backend], kind: str) -> str:
    """Name of the fastest of some backends that work; the first, unless another is clearly faster.

    Args:
        problem: What to measure with, if it is not known yet.
        candidates: Best guess first.
        kind: What the candidates have in common; each kind has its own answer in the file.

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
    if not seconds[fastest] < _WORTH_IT * seconds[names[0]]:
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
