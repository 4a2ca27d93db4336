"""Colours of two videos in coarse cells: lost, exchanged and turned ones are noticed.

Thumbnails compare brightness alone. Here the colour differences R-Y and B-Y of a few cells are
averaged over some frames of each file, so that neither noise nor a frame more or less counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Colours = NDArray[np.float32]
"""R-Y and B-Y of full scale, [2, SIDE, SIDE], as seen."""

SIDE = 4  # cells of a side
STEP = 4  # one frame of so many is looked at
_BLOCK = 6  # frames whose mean is kept
_MOST_OFF = 0.25  # energy of the difference over that of the source: half of the saturation
_LEAST = 0.01  # of full scale, RMS: less is no colour


@dataclass(slots=True)
class VideoColours:
    """Means over blocks of frames; memory: 128 bytes for each 24 frames."""

    _means: list[Colours] = field(default_factory=list)
    _waiting: list[Colours] = field(default_factory=list)

    def add(self, colours: Colours) -> None:
        """Add the next frame that is looked at."""
        self._waiting.append(colours)
        if len(self._waiting) == _BLOCK:
            self._means.append(_mean(self._waiting))
            self._waiting.clear()

    def are_unlike(self, other: VideoColours) -> bool:
        """Whether those of another video differ by as much as half of their saturation."""
        pairs = list(zip(self._blocks(), other._blocks(), strict=False))
        if not pairs:
            return False
        before, after = (np.stack(part) for part in zip(*pairs, strict=True))
        error = float(np.square(after - before).mean())
        return error > max(_LEAST**2, _MOST_OFF * float(np.square(before).mean()))

    def _blocks(self) -> list[Colours]:
        rest = [_mean(self._waiting)] if self._waiting else []
        return [*self._means, *rest]


def _mean(colours: list[Colours]) -> Colours:
    return np.asarray(np.mean(colours, axis=0), np.float32)
