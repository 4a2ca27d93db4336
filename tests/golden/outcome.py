"""What a check of one golden case gave."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


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
