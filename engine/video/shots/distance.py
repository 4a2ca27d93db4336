"""How far two pictures of a film are apart: small ones, and with what motion does forgiven."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from engine.core.geometry import Size
from engine.protocol.media import VideoInfo
from engine.video.read.frames import PlanarFrame, Plane

Small = NDArray[np.float32]  # [1 or 3, h, w]: luma, then two kinds of chroma, 0 to 1 or so

_LONGEST = 48  # cells on the longer side
_SAMPLES = 4  # pixels of a cell that are looked at, on each axis
_CHROMA_WEIGHT = 0.5
_LEAST_CONTRAST = 0.05
_LIGHT = 0.03  # change of brightness that is forgiven; a fade changes by less in each frame
_LEAST_SHARED = 0.5  # of a picture, after it was moved


class Reducer:
    """Makes small pictures of the frames of one film.

    A cell is the mean of 4 x 4 pixels spread over it: enough against noise, and cheap.
    """

    def __init__(self, video: VideoInfo) -> None:
        self._is_rgb = video.chroma == "rgb"
        self._peak = (1 << video.bit_depth) - 1
        self._cells = video.size.within(Size(_LONGEST, _LONGEST))

    def small(self, frame: PlanarFrame) -> Small:
        """Luma and chroma in cells; alpha is not looked at."""
        planes = frame.planes[: 3 if len(frame.planes) >= 3 else 1]
        cells = np.stack([_reduced(plane, self._cells) for plane in planes]) / self._peak
        if self._is_rgb:
            red, green, blue = cells
            luma = (red + 2 * green + blue) / 4
            cells = np.stack([luma, (blue - luma) / 2, (red - luma) / 2])
        return cells.astype(np.float32)


def distance(a: Small, b: Small) -> float:
    """How far the cells of each picture are outside of what is around the same cell of the other.

    Motion by less than a cell, grain and the edges of what moves hardly count. In units of the
    contrast, so that dark scenes are as far apart as bright ones: 0.005 within a quiet shot, 0.05
    where much moves, 0.2 to 2 across a cut.
    """
    return _outside(a, b) / _contrast(a, b)


def distance_at_rest(a: Small, b: Small) -> float:
    """The same after the best of two explanations: a camera that moved, and a change of light."""
    light = float(np.clip(a[0].mean() - b[0].mean(), -_LIGHT, _LIGHT))
    lit = b.copy()
    lit[0] += light
    least = _outside(a, lit)
    down, right = _motion(a[0], b[0])
    height, width = a.shape[1:]
    shared = (height - abs(down)) * (width - abs(right))
    if (down or right) and shared >= _LEAST_SHARED * height * width:
        least = min(least, _outside(_moved(a, down, right), _moved(lit, -down, -right)))
    return least / _contrast(a, b)


def _reduced(plane: Plane, cells: Size) -> Small:
    height, width = plane.shape
    samples = max(1, min(_SAMPLES, height // cells.height, width // cells.width))
    rows = _places(height, cells.height * samples)
    columns = _places(width, cells.width * samples)
    picked = plane[rows][:, columns]
    blocks = picked.reshape(cells.height, samples, cells.width, samples)
    mean: Small = blocks.mean((1, 3), dtype=np.float32)
    return mean


@cache
def _places(length: int, count: int) -> NDArray[np.intp]:
    return ((np.arange(count) + 0.5) * length / count).astype(np.intp)


def _contrast(a: Small, b: Small) -> float:
    return float(max(a[0].std(), b[0].std())) + _LEAST_CONTRAST


def _outside(a: Small, b: Small) -> float:
    away = _beyond(a, b) + _beyond(b, a)
    planes = away.mean((1, 2)) / 2
    return float(planes[0] + _CHROMA_WEIGHT * planes[1:].sum())


def _beyond(a: Small, b: Small) -> Small:
    """How far b is below or above the 3 x 3 cells of a around it."""
    padded = np.pad(a, ((0, 0), (1, 1), (1, 1)), mode="edge")
    low, high = _around(np.minimum, padded), _around(np.maximum, padded)
    beyond: Small = np.maximum(np.maximum(low - b, b - high), 0)
    return beyond


def _around(extreme: np.ufunc, padded: Small) -> Small:
    rows = extreme(extreme(padded[:, :-2], padded[:, 1:-1]), padded[:, 2:])
    cells: Small = extreme(extreme(rows[..., :-2], rows[..., 1:-1]), rows[..., 2:])
    return cells


def _moved(x: Small, down: int, right: int) -> Small:
    """What two pictures share after a shift: x without its first `down` rows, or its last ones."""
    height, width = x.shape[1:]
    rows = slice(max(0, down), height + min(0, down))
    columns = slice(max(0, right), width + min(0, right))
    return x[:, rows, columns]


def _motion(a: Small, b: Small) -> tuple[int, int]:
    """By how many cells a must move for b, down and right: the peak of their phase correlation."""
    spectrum = np.fft.rfft2(a - a.mean()) * np.conj(np.fft.rfft2(b - b.mean()))
    strength = np.abs(spectrum)
    evened = spectrum / (strength + 1e-3 * strength.max() + 1e-9)
    peak = np.fft.irfft2(evened, s=a.shape).argmax()
    down, right = np.unravel_index(peak, a.shape)
    return _signed(int(down), a.shape[0]), _signed(int(right), a.shape[1])


def _signed(shift: int, length: int) -> int:
    return shift - length if shift > length // 2 else shift
