"""Resizing in float32 with antialiasing: to the exact size after a model's own factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core.geometry import Size
from engine.ops.colour.spaces import from_light, to_light

_LOBES = 3  # of the Lanczos kernel on each side
_BAND = 64  # lines of a result that are made at once; planner.peaks counts what that takes

_Fold = Callable[[Tensor, Tensor], Tensor]
_LIMITS: tuple[tuple[_Fold, Callable[..., Tensor]], ...] = (
    (torch.maximum, torch.minimum),  # none above the largest
    (torch.minimum, torch.maximum),
)


def resize(frames: Tensor, size: Size) -> Tensor:
    """Bicubic (a = -0.5), antialiased when a side becomes smaller; half-pixel centres.

    Args:
        frames: [T, C, H, W] float32.
        size: Wanted size; the frames' own size returns them as they are.

    Returns:
        [T, C, size.height, size.width] float32; may overshoot the range of the input slightly.
    """
    if frames.shape[-2:] == (size.height, size.width):
        return frames
    return F.interpolate(
        frames, (size.height, size.width), mode="bicubic", antialias=True, align_corners=False
    )


def with_beyond(result: Tensor, source: Tensor) -> Tensor:
    """A result with what its source holds below 0 and above 1, which a model has not seen.

    Without it lights above white would be cut off, and noise around black made brighter.

    Args:
        result: [T, C, H, W] float32, is changed.
        source: [T, C, h, w] float32, nominally [0, 1].

    Memory: two tensors like the source, and where it holds such values half of the result.
    """
    beyond = source - source.clamp(0, 1)
    if bool(beyond.any()):
        channels, height, width = result.shape[1:]
        for plane, added in zip(result.chunk(channels, 1), beyond.chunk(channels, 1), strict=True):
            plane.add_(resize(added, Size(width, height)))
    return result


def resize_in_light(frames: Tensor, size: Size, transfer: str) -> Tensor:
    """Sides that become smaller in linear light, the others by `resize`.

    Light adds up: code values of fine lines, averaged, would come out too dark. The filter is
    Lanczos with three lobes, antialiased, with half-pixel centres. Its ringing would shine in the
    dark next to bright edges, so no result leaves the range of the pixels beneath the middle lobe;
    a flat colour stays as it is, bit for bit.

    Args:
        frames: [T, C, H, W] float32, code values.
        size: Wanted size; the frames' own size returns them as they are.
        transfer: Transfer of the code values, see `ops.colour.spaces`; "linear" for alpha.

    Returns:
        [T, C, size.height, size.width] float32.

    Memory: the result, and a few bands of 64 of its lines as wide as the frames.
    """
    height, width = frames.shape[-2:]
    less = Size(min(width, size.width), min(height, size.height))
    if less != Size(width, height):
        frames = _reduced(frames, less, transfer)
    return resize(frames, size)


def _reduced(frames: Tensor, size: Size, transfer: str) -> Tensor:
    rows = _Axis.of(frames.shape[-2], size.height, frames.device)
    columns = _Axis.of(frames.shape[-1], size.width, frames.device)
    result = frames.new_empty((*frames.shape[:2], size.height, size.width))
    for frame, target in zip(frames, result, strict=True):
        for band in rows.bands:
            made = target[:, band.first : band.last]
            source = frame[:, band.start : band.stop]
            made.copy_(_in_light(source, band, columns, transfer))
            firsts = rows.firsts[band.first : band.last] - band.start
            for fold, limit in _LIMITS:
                lines = _slid(source, -2, rows.span, fold).index_select(-2, firsts)
                limit(made, _picked(_slid(lines, -1, columns.span, fold), columns.firsts), out=made)
                del lines
    return result


def _in_light(source: Tensor, rows: _Band, columns: _Axis, transfer: str) -> Tensor:
    """Lines of the result from those of the source [C, h, W], without limits."""
    narrow = _across(to_light(source, transfer), columns)
    return from_light(torch.matmul(rows.weights, narrow), transfer)


@dataclass(frozen=True, slots=True, eq=False)
class _Band:
    """Some lines of a result, one after the other, and what they are made of."""

    first: int  # the first of them
    start: int  # first line of the source
    stop: int  # first line of the source after them
    weights: Tensor  # [lines, stop - start] float32; each row adds up to 1

    @property
    def last(self) -> int:
        """The line after them."""
        return self.first + len(self.weights)


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """Bands and filter of an axis that becomes shorter."""

    bands: tuple[_Band, ...]  # bands of the result
    firsts: Tensor  # [count] int64: the first source line beneath the middle lobe, of each line
    span: int  # source lines beneath it

    @classmethod
    def of(cls, length: int, count: int, device: torch.device) -> _Axis:
        """Reduction of `length` lines to `count`, at most as many."""
        ratio = length / count
        centres = (torch.arange(count, dtype=torch.float64, device=device) + 0.5) * ratio
        bands = []
        for first in range(0, count, _BAND):
            last = min(first + _BAND, count) - 1
            start = max(0, floor((first + 0.5 - _LOBES) * ratio))
            stop = min(length, ceil((last + 0.5 + _LOBES) * ratio))
            lines = torch.arange(start, stop, dtype=torch.float64, device=device) + 0.5
            away = (lines - centres[first : last + 1, None]) / ratio
            weights = torch.where(away.abs() < _LOBES, away.sinc() * (away / _LOBES).sinc(), 0)
            weights /= weights.sum(1, keepdim=True)
            bands.append(_Band(first, start, stop, weights.float()))
        span = min(length, ceil(2 * ratio))
        firsts = (centres - ratio + 0.5).floor().long().clamp(0, length - span)
        return cls(tuple(bands), firsts, span)


def _across(frames: Tensor, columns: _Axis) -> Tensor:
    """Columns of [C, h, W] become those of the result, [C, h, w]."""
    lines = frames.flatten(0, 1)
    result = lines.new_empty((len(lines), len(columns.firsts)))
    for band in columns.bands:
        made = result[:, band.first : band.last]
        torch.mm(lines[:, band.start : band.stop], band.weights.T, out=made)
    return result.view(*frames.shape[:2], -1)


def _slid(values: Tensor, axis: int, span: int, fold: _Fold) -> Tensor:
    """The largest or smallest of each `span` neighbours; the axis gets `span` - 1 shorter."""
    reach = 1
    while reach < span:
        step = min(reach, span - reach)
        rest = values.shape[axis] - step
        values = fold(values.narrow(axis, 0, rest), values.narrow(axis, step, rest))
        reach += step
    return values


def _picked(values: Tensor, columns: Tensor) -> Tensor:
    """Columns of [C, h, W]; as one matrix, which torch is quicker at."""
    return values.flatten(0, 1).index_select(1, columns).view(*values.shape[:2], -1)


def thumbnail(frame: Tensor, longest_side: int) -> Tensor:
    """A small image for previews, 8 bit.

    Args:
        frame: [C, H, W] float32, 0 to 1; only the first three channels are used.
        longest_side: Most pixels on the longer side; never enlarged.

    Returns:
        [h, w, 3] uint8, contiguous.

    Memory: a copy of the frame in float32.
    """
    height, width = frame.shape[-2:]
    small = Size(width, height).within(Size(longest_side, longest_side))
    step = max(1, min(height // small.height, width // small.width))
    picture = F.avg_pool2d(frame[None, :3], step) if step > 1 else frame[None, :3]
    if step > 1:
        small = Size(picture.shape[-1], picture.shape[-2]).within(Size(longest_side, longest_side))
    if picture.shape[-2:] != (small.height, small.width):
        picture = F.interpolate(
            picture, (small.height, small.width), mode="bilinear", antialias=True
        )
    return picture[0].mul(255).round_().clamp_(0, 255).byte().permute(1, 2, 0).contiguous()
