"""Cuttings that Lite learns from: another part, size and colouring of a picture each time.

A network that sees the same few hundred pictures again and again learns them by heart: with fixed
ones Lite Plus x4 gained until step 6,000 of 9,500 and lost 0.15 dB afterwards; 500 steps with
cuttings like these made up for it and added 0.1 dB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from PIL import Image

from tools.training.damage import Frames, Rng, blurred
from tools.training.degrade import Pictures, Windows, reduced

_MOST_REDUCED = 2  # parts that are reduced further are sharper than what a camera sees
_TRIES, _EMPTY_SHARE = 4, 0.15  # an empty part is exchanged for another, unless by chance
_LEAST_STEP = 4  # mean difference of every other pixel in green, of 255
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


class CleanCuttings:
    """Images that are only reduced; sources of one frame.

    Images are drawn by their area; nearly empty parts are mostly exchanged for others.

    Args:
        images: uint8 [h, w, 3] each, of any size.
        scale: Reduction.
    """

    def __init__(self, images: Sequence[np.ndarray], scale: int) -> None:
        self._images, self._scale = images, scale
        areas = np.array([image.shape[0] * image.shape[1] for image in images], np.float64)
        self._shares = areas / areas.sum()

    @property
    def most_side(self) -> int:
        """Least side of an image, reduced."""
        return int(min(min(image.shape[:2]) for image in self._images)) // self._scale

    def draw(self, rng: Rng, side: int) -> tuple[Frames, np.ndarray]:
        """A part of up to twice the size, made smaller, with its colours exchanged."""
        wanted = side * self._scale
        part = self.part(rng, wanted, _MOST_REDUCED)
        if len(part) > wanted:
            image = Image.fromarray(part).resize((wanted, wanted), Image.Resampling.LANCZOS)
            part = np.asarray(image)
        if rng.random() < _SOFT_SHARE:
            sigma = rng.uniform(*_SOFT)
            part = (blurred(part[None].astype(np.float32), sigma, sigma)[0] + 0.5).astype(np.uint8)
        target = np.ascontiguousarray(_curve(rng)[part[..., rng.permutation(3)]])
        return reduced(target, self._scale)[None], target

    def part(self, rng: Rng, wanted: int, most: int = 1) -> np.ndarray:
        """A square of an image, [n, n, 3], n px or up to `most` times as many."""
        part = self._any_part(rng, wanted, most)
        for _ in range(_TRIES - 1):
            if _has_detail(part) or rng.random() < _EMPTY_SHARE:
                break
            part = self._any_part(rng, wanted, most)
        return part

    def _any_part(self, rng: Rng, wanted: int, most: int) -> np.ndarray:
        image = self._images[rng.choice(len(self._images), p=self._shares)]
        most = min(*image.shape[:2], most * wanted)
        size = round(wanted * (most / wanted) ** rng.random())
        y, x = (int(rng.integers(0, whole - size + 1)) for whole in image.shape[:2])
        return image[y : y + size, x : x + size]


def _has_detail(part: np.ndarray) -> bool:
    """Whether there is more to learn than a sky, or a wall out of focus."""
    green = part[::2, ::2, 1].astype(np.int16)
    return bool(np.abs(np.diff(green, axis=1)).mean() > _LEAST_STEP)


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
