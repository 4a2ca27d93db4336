"""Thumbnails of frames: small grey pictures, their likeness, which are black, and their colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.geometry import Size
from engine.protocol.media import VideoInfo
from engine.video.colour_tags import assumed_matrix, assumed_range

Thumbnail = NDArray[np.float32]  # [rows, columns] luma; 0 is black, 1 white
Colours = NDArray[np.float32]  # [2, 4, 4] R-Y and B-Y of full scale, means of coarse cells
Codes = NDArray[Any]  # uint8, uint16, or sums of them
_LONG_SIDE = 64  # cells
_CELL = 4  # px of the source at least: the upscaler's sharper edges change smaller cells
_BOXES = 3  # boxes of whole pixels a cell is made of, in frames that have enough of them
_BLACK = 0.035  # of full scale: black after coding
_NOT_BLACK = 0.10
_FAR = 0.25  # of full scale: a cell that shows something else
# Part of full scale by which neighbouring pixels differ where dots stand for greys; in photographs
# it is 0.01 to 0.08.
_DOTTED = 0.15
_ROW_STEP = 8  # one row in eight is looked at for dots
SAMPLE_STEP = 4  # one frame in four is sampled for its colours and for dots
_COLOUR_SIDE = 4  # cells of a side
_COLOUR_BLOCK = 6  # sampled frames whose mean is kept
_MOST_COLOUR_OFF = 0.25  # energy of the difference over that of the source: half of the saturation
_LEAST_COLOUR = 0.01  # of full scale, RMS: less is no colour
_LUMA = {"bt709": (0.2126, 0.7152, 0.0722), "bt2020nc": (0.2627, 0.6780, 0.0593)}
_LUMA_SD = (0.299, 0.587, 0.114)


def grid_of(video: VideoInfo) -> Size:
    """Cells of the thumbnails of this source as seen; the longer side has at most 64."""
    seen = video.seen_size
    longest = max(seen.width, seen.height)
    cells = min(_LONG_SIDE, max(1, longest // _CELL))
    return Size(
        max(1, round(seen.width * cells / longest)), max(1, round(seen.height * cells / longest))
    )


class Thumbnailer:
    """Makes thumbnails, as seen, of the frames of one file.

    An RGB picture gets its luma by the matrix of the other file, so that both are alike. Where both
    have alpha, what shows on black is compared: colours beneath transparent pixels may differ.
    """

    def __init__(self, video: VideoInfo, grid: Size, other: VideoInfo) -> None:
        self._quarter_turns = video.rotation // 90
        self._mirrored = video.is_mirrored
        self._grid = grid.transposed() if self._quarter_turns % 2 else grid
        self._weights = _weights(video, other)
        self._has_alpha = video.has_alpha and other.has_alpha
        # beneath transparent pixels any colour may be
        self.sees_colours = not (video.has_alpha or other.has_alpha)
        self._luma = _LUMA.get(_matrix_of(video, other), _LUMA_SD)
        self._chroma = video.chroma
        self._peak = (1 << video.bit_depth) - 1
        self._low, self._span = 0.0, float(self._peak)
        if (video.tags.range or assumed_range(video)) != "pc":
            unit = float(1 << (video.bit_depth - 8))
            self._low, self._span = 16 * unit, 219 * unit

    def __call__(self, planes: Sequence[Codes]) -> Thumbnail:
        """Mean luma of each cell."""
        rows, columns = self._grid.height, self._grid.width
        black: float | NDArray[np.float64] = self._low
        if self._has_alpha:
            *planes, alpha = planes
            planes = [_veiled(plane, alpha, self._peak) for plane in planes[: len(self._weights)]]
            black = self._low / self._peak * area_mean(alpha, rows, columns)
        grey = sum(
            area_mean(plane, rows, columns) * weight
            for plane, weight in zip(planes, self._weights, strict=False)
        )
        return self._as_seen(np.asarray((grey - black) / self._span, dtype=np.float32))

    def shows_dots(self, planes: Sequence[Codes]) -> bool:
        """Whether a frame makes its greys of dots, as pictures with two colours do."""
        rows = planes[1 if self._chroma == "rgb" else 0][::_ROW_STEP].astype(np.int32)
        return bool(np.abs(np.diff(rows)).sum() > _DOTTED * self._span * rows.size)

    def colours(self, planes: Sequence[Codes]) -> Colours:
        """Mean colours of coarse cells; those of grey are 0."""
        red, blue = self._luma[0], self._luma[-1]
        coarse = partial(area_mean, rows=_COLOUR_SIDE, columns=_COLOUR_SIDE)
        if self._chroma == "gray":
            found = np.zeros((2, _COLOUR_SIDE, _COLOUR_SIDE))
        elif self._chroma == "rgb":
            r, g, b = (coarse(plane) / self._peak for plane in planes[:3])
            luma = red * r + self._luma[1] * g + blue * b
            found = np.stack((r - luma, b - luma))
        else:
            half, span = (self._peak + 1) / 2, self._span * (224 / 219 if self._low else 1)
            cb, cr = ((coarse(plane) - half) / span for plane in planes[1:3])
            found = np.stack((2 * (1 - red) * cr, 2 * (1 - blue) * cb))
        return self._as_seen(found.astype(np.float32))

    def _as_seen(self, stored: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cells [..., rows, columns] rotated and then mirrored, as `VideoInfo` states it."""
        turned = np.rot90(stored, -self._quarter_turns, axes=(-2, -1))
        return np.ascontiguousarray(turned[..., ::-1] if self._mirrored else turned)


def _veiled(plane: Codes, alpha: Codes, peak: int) -> Codes:
    """Code values of a plane on black."""
    return (plane.astype(np.uint32) * alpha // peak).astype(plane.dtype)


def _matrix_of(video: VideoInfo, other: VideoInfo) -> str:
    """Matrix of a file; of an RGB one that of the other."""
    tagged = other if video.chroma == "rgb" else video
    return tagged.tags.matrix or assumed_matrix(tagged.size)


def _weights(video: VideoInfo, other: VideoInfo) -> tuple[float, ...]:
    """Share of each plane in luma."""
    if video.chroma != "rgb":
        return (1.0,)
    return _LUMA.get(other.tags.matrix, _LUMA_SD)


def area_mean(plane: Codes, rows: int, columns: int) -> NDArray[np.float64]:
    """Mean of each cell of a `rows` x `columns` grid laid over a plane [h, w].

    Cells may end inside a pixel, so that the same grid over a picture and over its enlargement
    covers the same content. Whole rows and columns are added as integers first: 1 to 3 ms of
    CPU time for 960x540 to 3840x2160. (A matrix product would be as fast, but wakes a
    thread on every core, and those spin.)
    """
    height, width = plane.shape
    row_box = max(1, height // (rows * _BOXES))
    column_box = max(1, width // (columns * _BOXES))
    boxes = _add_boxes(_add_boxes(plane, row_box).T, column_box)
    across = _mean_along(boxes, width, columns, column_box)
    return _mean_along(np.ascontiguousarray(across.T), height, rows, row_box)


def _add_boxes(values: Codes, box: int) -> Codes:
    """Sums over `box` neighbours along the first axis; the last box may be smaller."""
    if box == 1:
        return values
    whole = values.shape[0] // box * box
    wide = np.uint16 if values.dtype == np.uint8 and box <= 256 else np.uint32
    parts = values[:whole].reshape(-1, box, values.shape[1])
    total: Codes = parts[:, 0].astype(wide)
    for number in range(1, box):
        total += parts[:, number]
    if whole < values.shape[0]:
        rest = values[whole:].sum(axis=0, dtype=wide)
        total = np.concatenate((total, rest[None]))
    return total


def _mean_along(boxes: Codes, length: int, cells: int, box: int) -> NDArray[np.float64]:
    """Means of `cells` equal parts of an axis of `length` px, from sums of boxes."""
    index, share = _cuts(length, cells, box)
    total = np.zeros((boxes.shape[0] + 1, boxes.shape[1]))
    np.cumsum(boxes, axis=0, dtype=np.float64, out=total[1:])
    at = total[index] + share[:, None] * boxes[index]
    means: NDArray[np.float64] = (at[1:] - at[:-1]) * (cells / length)
    return means


@cache
def _cuts(length: int, cells: int, box: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Box that each edge of a cell falls into, and the share of that box before the edge."""
    edges = np.linspace(0, length, cells + 1)
    index = np.minimum((edges // box).astype(np.intp), -(-length // box) - 1)
    sizes = np.minimum(box, length - index * box)
    return index, (edges - index * box) / sizes


def likeness(one: Thumbnail, other: Thumbnail) -> float:
    """SSIM of two thumbnails, mean over blocks of 4 x 4 cells; 1 when equal."""
    a, b = _blocks(one), _blocks(other)
    mean_a, mean_b = a.mean(axis=1), b.mean(axis=1)
    a, b = a - mean_a[:, None], b - mean_b[:, None]
    spread = (a * a).mean(axis=1) + (b * b).mean(axis=1)
    both = (a * b).mean(axis=1)
    near = (2 * mean_a * mean_b + 1e-4) / (mean_a**2 + mean_b**2 + 1e-4)
    return float((near * (2 * both + 9e-4) / (spread + 9e-4)).mean())


def _blocks(grey: Thumbnail) -> Thumbnail:
    """[n, 16] blocks of 4 x 4 cells; incomplete ones at the edges are filled by mirroring."""
    missing = -grey.shape[0] % 4, -grey.shape[1] % 4
    if any(missing):  # takes as long as all the rest
        grey = np.pad(grey, ((0, missing[0]), (0, missing[1])), mode="symmetric")
    rows, columns = grey.shape
    return grey.reshape(rows // 4, 4, columns // 4, 4).swapaxes(1, 2).reshape(-1, 16)


def without_dots(grey: Thumbnail) -> Thumbnail:
    """Means over neighbouring cells: of dots a cell has some more or less than its share."""
    rows, columns = grey.shape
    padded = np.pad(grey, 1, mode="edge")
    across = (padded[:, :columns] + 2 * padded[:, 1:-1] + padded[:, 2:]) / 4
    return np.asarray((across[:rows] + 2 * across[1:-1] + across[2:]) / 4, np.float32)


def share_far_off(source: Thumbnail, result: Thumbnail) -> float:
    """Part of the cells whose brightness is far from the source's, 0 to 1."""
    return float((np.abs(source - result) > _FAR).mean())


def is_black_instead(source: Thumbnail, result: Thumbnail) -> bool:
    """True when the result is black all over where the source shows something."""
    return bool(result.max() < _BLACK and source.max() > _NOT_BLACK)


@dataclass(slots=True)
class VideoColours:
    """Colours of a video, whose hues and saturation are compared with those of another.

    Means over blocks of frames, so that neither noise nor a frame more or less counts. Memory: 128
    bytes for each 24 frames.
    """

    _means: list[Colours] = field(default_factory=list)
    _waiting: list[Colours] = field(default_factory=list)

    def add(self, colours: Colours) -> None:
        """Add the next sampled frame."""
        self._waiting.append(colours)
        if len(self._waiting) == _COLOUR_BLOCK:
            self._means.append(_mean_of(self._waiting))
            self._waiting.clear()

    def are_unlike(self, other: VideoColours) -> bool:
        """Whether those of another video differ by as much as half of their saturation."""
        pairs = list(zip(self._blocks(), other._blocks(), strict=False))
        if not pairs:
            return False
        before, after = (np.stack(part) for part in zip(*pairs, strict=True))
        error = float(np.square(after - before).mean())
        return error > max(_LEAST_COLOUR**2, _MOST_COLOUR_OFF * float(np.square(before).mean()))

    def _blocks(self) -> list[Colours]:
        rest = [_mean_of(self._waiting)] if self._waiting else []
        return [*self._means, *rest]


def _mean_of(colours: list[Colours]) -> Colours:
    return np.asarray(np.mean(colours, axis=0), np.float32)
