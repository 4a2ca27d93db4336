"""What was proved about a result: one check a line, passed or not, in words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was compared.

    `code` is one of "readable", "frame-count", "frame-order", "time-stamps", "size", "tags",
    "streams", "stream-content", "sound-timing", "chapters", "metadata", "likeness", "black".
    """

    code: str
    passed: bool
    message: str  # "240 frames in, 240 out"
    source: str = ""  # value on the source's side
    output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Source against result."""

    source: Path
    output: Path
    checks: tuple[Check, ...]
    frames_in: int = 0
    frames_out: int = 0
    likeness_mean: float = 0.0  # SSIM of small grey pictures, 0 to 1
    likeness_min: float = 0.0
    seconds: float = 0.0  # that the job took, 0 when only verified
    peak_bytes: int = 0

    @property
    def passed(self) -> bool:
        """True when every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def problems(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if not check.passed)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorLine:
    """One thing the self-test looked at on this machine."""

    name: str  # "torch", "encoder libx264"
    state: Literal["ok", "warning", "problem"]
    message: str  # what was found
    hint: str = ""  # what helps, when it is not ok
