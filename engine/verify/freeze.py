"""Finds a frame that shows its predecessor again in its own place: count and order hide it.

Where little moves, two neighbouring frames differ less than the result differs from the source.
The step from one frame to the next is far more exact: what enlarging and coding change stays much
the same from frame to frame. So steps are compared, each with those around it.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.verify.thumbnails import Grey

_AROUND = 12  # frames on either side that tell what is usual
_ENOUGH = 6  # of them, at least
_CLEAR = 3.0  # times the usual error
_STILL = 0.35  # of the source's step that a frozen frame may move


@dataclass(slots=True)
class Steps:
    """How the picture changes from frame to frame, on both sides; 12 bytes a frame."""

    source: array[float] = field(default_factory=lambda: array("f"))  # rms of full scale
    result: array[float] = field(default_factory=lambda: array("f"))
    error: array[float] = field(default_factory=lambda: array("f"))  # of the difference of both
    _last: Grey | None = None

    def add(self, source: NDArray[np.float32], before: NDArray[np.float32], result: Grey) -> None:
        """Take the next frame: the source's picture and the one before it, and the result's."""
        known = self._last is not None
        step = result - self._last if self._last is not None else np.zeros_like(result)
        wanted = (source - before).reshape(result.shape) if known else step
        self.source.append(_rms(wanted))
        self.result.append(_rms(step))
        self.error.append(_rms(step - wanted))
        self._last = result

    def frozen(self) -> list[int]:
        """Frames that stand still though the source moves on, and are made up for by the next."""
        error = np.frombuffer(self.error, np.float32)
        still = np.frombuffer(self.result, np.float32) < _STILL * np.frombuffer(
            self.source, np.float32
        )
        return [int(n) for n in np.flatnonzero(still) if self._is_frozen(int(n), error)]

    def _is_frozen(self, number: int, error: NDArray[np.float32]) -> bool:
        around = np.r_[
            error[max(1, number - _AROUND) : number], error[number + 2 : number + 2 + _AROUND]
        ]
        if around.size < _ENOUGH or number + 1 >= error.size:
            return False
        limit = _CLEAR * float(np.median(around))
        moves = self.source[number] > limit
        return moves and bool(error[number] > limit and error[number + 1] > limit)


def _rms(values: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.square(values).mean(dtype=np.float64)))
