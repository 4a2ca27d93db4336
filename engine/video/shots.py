"""Shot detection: cuts of a video, found while it is read, rather one too many than one too few.

A missed cut lets the old shot show through in the new one; a false cut costs next to nothing. So
there is no minimum length of a shot, and flashes count as cuts. Fades and dissolves do not.
"""

from __future__ import annotations

from collections import deque
from functools import cache

import numpy as np
from numpy.typing import NDArray

from engine.core.geometry import Size
from engine.protocol.media import VideoInfo
from engine.video.read.frames import PlanarFrame, Plane

SENSITIVITY = 60
_COMPARED = 12  # distances between neighbours that a new one is compared with
HISTORY = _COMPARED + 1
"""Frames before a frame on which the decision for it depends; no later frame matters."""

# At the default sensitivity; units of `distance`.
_UNLIKE = 0.07  # pictures this far apart are never one shot, whatever the motion
_SUDDEN = 0.02  # nearer ones are always one shot
_MIN_HISTORY = 3  # distances before which none counts as usual
_JUMP = 3.0  # times the usual distance: a cut
_HALVED_BY = 20.0  # of sensitivity more halves the limits

SmallPicture = NDArray[np.float32]  # [1 or 3, h, w]: luma, then two kinds of chroma, about 0 to 1

_LONG_SIDE = 48  # cells
_SAMPLES = 4  # pixels of a cell that are read, on each axis
_CHROMA_WEIGHT = 0.5
_MIN_CONTRAST = 0.05
_LIGHT = 0.03  # change of brightness that is compensated; a fade changes by less in each frame
_MIN_SHARED = 0.5  # of a picture, after a shift


class ShotDetector:
    """Decides for each frame of a video whether a shot starts with it.

    Each frame is compared with the one before: a cut is a difference that no motion explains, or a
    jump in a quiet passage. The usual distance is the second largest of the last twelve, so that
    neither the cut before nor animation with each drawing shown two or three times misleads.

    A resumed job decides as an uninterrupted one after HISTORY frames; so begin that much earlier.

    Memory: one small picture and twelve distances.
    """

    def __init__(self, video: VideoInfo, *, sensitivity: int | None = SENSITIVITY) -> None:
        """Reads nothing yet.

        Args:
            video: Properties of the video; its size, depth and chroma are used.
            sensitivity: 0 (only the clearest cuts) to 100; None finds no cuts.
        """
        if sensitivity is not None and not 0 <= sensitivity <= 100:
            raise ValueError(f"a sensitivity of {sensitivity} is not within 0 and 100")
        self._reducer = None if sensitivity is None else PictureReducer(video)
        self._factor = 2 ** ((SENSITIVITY - (sensitivity or 0)) / _HALVED_BY)
        self._last: SmallPicture | None = None
        self._distances: deque[float] = deque(maxlen=_COMPARED)
        self._is_first = True

    def starts_shot(self, frame: PlanarFrame) -> bool:
        """Whether a shot starts with the next frame of the video; the first one always does."""
        is_first, self._is_first = self._is_first, False
        if self._reducer is None:
            return is_first
        last, self._last = self._last, self._reducer.small(frame)
        return last is None or self._is_cut(last, self._last)

    def _is_cut(self, a: SmallPicture, b: SmallPicture) -> bool:
        far = distance(a, b)
        usual = sorted(self._distances)[-2] if len(self._distances) >= _MIN_HISTORY else far
        self._distances.append(far)
        if far <= _SUDDEN * self._factor:
            return False
        return far > _JUMP * usual or compensated_distance(a, b) > _UNLIKE * self._factor


def are_unlike(a: SmallPicture, b: SmallPicture) -> bool:
    """Whether two neighbours belong to different shots whatever was before them."""
    return distance(a, b) > _SUDDEN and compensated_distance(a, b) > _UNLIKE


class PictureReducer:
    """Reduces the frames of one video to small pictures.

    A cell is the mean of 4 x 4 pixels spread over it: enough against noise, and cheap.
    """

    def __init__(self, video: VideoInfo) -> None:
        self._is_rgb = video.chroma == "rgb"
        self._peak = (1 << video.bit_depth) - 1
        self._cells = video.size.within(Size(_LONG_SIDE, _LONG_SIDE))

    def small(self, frame: PlanarFrame) -> SmallPicture:
        """Luma and chroma in cells; alpha is ignored."""
        planes = frame.planes[: 3 if len(frame.planes) >= 3 else 1]
        cells = np.stack([_reduced(plane, self._cells) for plane in planes]) / self._peak
        if self._is_rgb:
            red, green, blue = cells
            luma = (red + 2 * green + blue) / 4
            cells = np.stack([luma, (blue - luma) / 2, (red - luma) / 2])
        return cells.astype(np.float32)


def distance(a: SmallPicture, b: SmallPicture) -> float:
    """Distance of two pictures: each cell against the range of the 3 x 3 cells around it.

    Motion by less than a cell, grain and the edges of moving objects hardly count. In units of the
    contrast, so that dark scenes are as far apart as bright ones: 0.005 within a quiet shot, 0.05
    with much motion, 0.2 to 2 across a cut.
    """
    return _outside(a, b) / _contrast(a, b)


def compensated_distance(a: SmallPicture, b: SmallPicture) -> float:
    """Difference after compensating camera motion or a change of light, the smaller of both."""
    light = float(np.clip(a[0].mean() - b[0].mean(), -_LIGHT, _LIGHT))
    lit = b.copy()
    lit[0] += light
    least = _outside(a, lit)
    down, right = _motion(a[0], b[0])
    height, width = a.shape[1:]
    shared = (height - abs(down)) * (width - abs(right))
    if (down or right) and shared >= _MIN_SHARED * height * width:
        least = min(least, _outside(_overlap(a, down, right), _overlap(lit, -down, -right)))
    return least / _contrast(a, b)


def _reduced(plane: Plane, cells: Size) -> SmallPicture:
    height, width = plane.shape
    samples = max(1, min(_SAMPLES, height // cells.height, width // cells.width))
    rows = _sample_positions(height, cells.height * samples)
    columns = _sample_positions(width, cells.width * samples)
    picked = plane[rows][:, columns]
    blocks = picked.reshape(cells.height, samples, cells.width, samples)
    mean: SmallPicture = blocks.mean((1, 3), dtype=np.float32)
    return mean


@cache
def _sample_positions(length: int, count: int) -> NDArray[np.intp]:
    return ((np.arange(count) + 0.5) * length / count).astype(np.intp)


def _contrast(a: SmallPicture, b: SmallPicture) -> float:
    return float(max(a[0].std(), b[0].std())) + _MIN_CONTRAST


def _outside(a: SmallPicture, b: SmallPicture) -> float:
    outside = _beyond(a, b) + _beyond(b, a)
    planes = outside.mean((1, 2)) / 2
    return float(planes[0] + _CHROMA_WEIGHT * planes[1:].sum())


def _beyond(a: SmallPicture, b: SmallPicture) -> SmallPicture:
    """Distance of each cell of b from the range of the 3 x 3 cells of a around it."""
    padded = np.pad(a, ((0, 0), (1, 1), (1, 1)), mode="edge")
    low, high = (
        _extreme_of_neighbours(np.minimum, padded),
        _extreme_of_neighbours(np.maximum, padded),
    )
    beyond: SmallPicture = np.maximum(np.maximum(low - b, b - high), 0)
    return beyond


def _extreme_of_neighbours(extreme: np.ufunc, padded: SmallPicture) -> SmallPicture:
    rows = extreme(extreme(padded[:, :-2], padded[:, 1:-1]), padded[:, 2:])
    cells: SmallPicture = extreme(extreme(rows[..., :-2], rows[..., 1:-1]), rows[..., 2:])
    return cells


def _overlap(x: SmallPicture, down: int, right: int) -> SmallPicture:
    """The part of x that two pictures share after a shift."""
    height, width = x.shape[1:]
    rows = slice(max(0, down), height + min(0, down))
    columns = slice(max(0, right), width + min(0, right))
    return x[:, rows, columns]


def _motion(a: SmallPicture, b: SmallPicture) -> tuple[int, int]:
    """Shift from a to b in cells, down and right: the peak of their phase correlation."""
    spectrum = np.fft.rfft2(a - a.mean()) * np.conj(np.fft.rfft2(b - b.mean()))
    strength = np.abs(spectrum)
    whitened = spectrum / (strength + 1e-3 * strength.max() + 1e-9)
    peak = np.fft.irfft2(whitened, s=a.shape).argmax()
    down, right = np.unravel_index(peak, a.shape)
    return _signed(int(down), a.shape[0]), _signed(int(right), a.shape[1])


def _signed(shift: int, length: int) -> int:
    return shift - length if shift > length // 2 else shift
