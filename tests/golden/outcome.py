"""Outcome of a golden case, and the outputs of each block while a model runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from engine.models.load import check_keys, shapes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One case: how far off it is, or what went wrong."""

    case: str
    error: float | None = None  # None: nothing to measure, it is right or there is a problem
    limit: float = 0.0
    problem: str = ""

    @property
    def passed(self) -> bool:
        return not self.problem and (self.error is None or self.error <= self.limit)

    def __str__(self) -> str:
        state = "ok  " if self.passed else "FAIL"
        if self.problem:
            return f"{state} {self.case}: {self.problem}"
        if self.error is None:
            return f"{state} {self.case}"
        return f"{state} {self.case}: error {self.error:.2e}, limit {self.limit:.0e}"


def compared(case: str, found: Tensor, wanted: Tensor, limit: float) -> Outcome:
    """Largest absolute difference of two tensors; values that are not finite never pass."""
    if found.shape != wanted.shape:
        shapes = f"shape {tuple(found.shape)} instead of {tuple(wanted.shape)}"
        return Outcome(case=case, problem=shapes)
    if not found.numel():
        return Outcome(case=case, problem="there are no values to compare")
    error = float((found.double() - wanted.double()).abs().max())
    return Outcome(case=case, error=error if math.isfinite(error) else math.inf, limit=limit)


def right(case: str, is_right: bool) -> Outcome:
    """The outcome of a comparison without a limit."""
    return Outcome(case=case, problem="" if is_right else "it differs from the file")


def compared_names(
    path: Path, model: nn.Module, wanted: dict[str, tuple[int, ...]], count: int
) -> Iterator[Outcome]:
    """Names and shapes of a model, and its number of parameters, equal those of a file."""
    check_keys(shapes_of(model), wanted, path)
    yield Outcome(case=f"{path.name} names and shapes")
    found = sum(parameter.numel() for parameter in model.parameters())
    yield right(f"{path.name} number of parameters", found == count)


Keep = Callable[[str, Tensor], None]

STREAMS = ("vid", "txt")  # blocks of a transformer give both


@contextmanager
def traced_blocks(model: Any, found: dict[str, Tensor]) -> Iterator[None]:
    """Put the output of each block into `found` under its module path, copied.

    A model that does not run its blocks as modules has an attribute `trace` that it calls.
    """

    def keep(name: str, output: Tensor) -> None:
        found[name] = output.clone()  # variants work in place

    if hasattr(model, "trace"):
        model.trace = keep
        try:
            yield
        finally:
            model.trace = None
        return
    hooks = [
        module.register_forward_hook(partial(_hooked, name, keep))
        for name, module in model.named_modules()
        if name
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _hooked(name: str, keep: Keep, module: nn.Module, given: object, output: object) -> None:
    if isinstance(output, Tensor):
        keep(name, output)
    elif isinstance(output, tuple) and len(output) == len(STREAMS):
        for stream, value in zip(STREAMS, output, strict=True):
            keep(f"{name}.{stream}", value)
