"""Cuttings that Lite learns from: another part, size and colouring of a picture each time.

A network that sees the same few hundred pictures again and again learns them by heart: with fixed
ones Lite Plus x4 gained until step 6,000 of 9,500 and lost 0.15 dB afterwards; 500 steps with
cuttings like these made up for it and added 0.1 dB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from PIL import Image

from tools.training.damage import Frames, Rng, blurred
from tools.training.degrade import Pictures, Windows, reduced

_SOFT_SHARE = 1 / 3
_SOFT = (0.4, 1.4)  # sigma of softer ones, px of the target: few videos are sharp to the pixel
_CURVE_SHARE, _STEEPEST = 0.3, 0.4  # exponents of tone curves are up to e**0.4
_NEGATIVE_SHARE = 0.3


class Cuttings(Protocol):
    """Source of the cuttings of a training."""

    @property
    def most_side(self) -> int:
        """Largest side of a source, px."""
        ...

    def draw(self, rng: Rng, side: int) -> tuple[Frames, np.ndarray]:
        """A source, uint8 [T, side, side, 3], and its target [scale*side, scale*side, 3]."""
        ...


@dataclass(frozen=True, slots=True)
class CleanCuttings:
    """Pictures that are only reduced; sources of one frame.

    Attributes:
        pictures: uint8 [n, h, h, 3].
        scale: Reduction.
    """

    pictures: Pictures
    scale: int

    @property
    def most_side(self) -> int:
        """Side of a whole picture, reduced."""
        return int(self.pictures.shape[1]) // self.scale

    def draw(self, rng: Rng, side: int) -> tuple[Frames, np.ndarray]:
        """A part of any size, made smaller where it is larger, with its colours exchanged."""
        wanted, whole = side * self.scale, self.pictures.shape[1]
        size = round(wanted * (whole / wanted) ** rng.random())
        y, x = (int(v) for v in rng.integers(0, whole - size + 1, 2))
        part = self.pictures[rng.integers(len(self.pictures)), y : y + size, x : x + size]
        if size > wanted:
            image = Image.fromarray(part).resize((wanted, wanted), Image.Resampling.LANCZOS)
            part = np.asarray(image)
        if rng.random() < _SOFT_SHARE:
            sigma = rng.uniform(*_SOFT)
            part = (blurred(part[None].astype(np.float32), sigma, sigma)[0] + 0.5).astype(np.uint8)
        target = np.ascontiguousarray(_curve(rng)[part[..., rng.permutation(3)]])
        return reduced(target, self.scale)[None], target


@dataclass(frozen=True, slots=True)
class DamagedCuttings:
    """Pairs that were made beforehand: encoders take long.

    Attributes:
        sources: uint8 [n, 3, h, h, 3].
        targets: uint8 [n, scale*h, scale*h, 3].
    """

    sources: Windows
    targets: Pictures

    @property
    def most_side(self) -> int:
        """Side of a source."""
        return int(self.sources.shape[2])

    def draw(self, rng: Rng, side: int) -> tuple[Frames, np.ndarray]:
        """A part of both; the encoders' order of colours is kept."""
        index, scale = rng.integers(len(self.sources)), self.targets.shape[1] // self.most_side
        y, x = (int(v) for v in rng.integers(0, self.most_side - side + 1, 2))
        source = self.sources[index, :, y : y + side, x : x + side]
        rows, columns = (slice(v * scale, (v + side) * scale) for v in (y, x))
        curve = _curve(rng)
        return curve[source], curve[self.targets[index, rows, columns]]


def _curve(rng: Rng) -> np.ndarray:
    """New values of 0 to 255: brighter, darker or negative ones; most often the same."""
    values = np.linspace(0, 1, 256)
    if rng.random() < _CURVE_SHARE:
        values = values ** np.exp(rng.uniform(-_STEEPEST, _STEEPEST))
    if rng.random() < _NEGATIVE_SHARE:
        values = 1 - values
    return (255 * values + 0.5).astype(np.uint8)
