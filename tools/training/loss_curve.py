"""The losses of a training as a picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

WIDTH, HEIGHT = 900, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 30, 40
_INK, _GRID, _EACH, _MEAN = "#30343b", "#e3e5e8", "#a9c3e6", "#1f5fae"
_GRID_LINES = 5
_MEAN_SHARE = 0.05  # of all steps, that the mean goes over


def draw_loss_curve(losses: Sequence[float]) -> Image.Image:
    """Each step's loss, and in front of it the mean of the last twentieth of all steps.

    The axis of losses is logarithmic; losses that are infinite, NaN or 0 are left out.
    """
    picture = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw = ImageDraw.Draw(picture)
    values = np.asarray(losses, dtype=np.float64)
    places = np.flatnonzero(np.isfinite(values) & (values > 0))
    if not len(places):
        return picture
    logs = np.log10(values[places])
    low, high = _limits(logs)
    across = _LEFT + (WIDTH - _LEFT - _RIGHT) * places / max(1, len(values) - 1)
    _grid(draw, low, high, len(values))
    means = _means(logs, max(1, round(len(values) * _MEAN_SHARE)))
    for series, colour, width in ((logs, _EACH, 1), (means, _MEAN, 3)):
        down = _down(series, low, high)
        points = list(zip(across.tolist(), down.tolist(), strict=True))
        draw.line(points * 2 if len(points) == 1 else points, fill=colour, width=width)
    return picture


def _limits(logs: np.ndarray) -> tuple[float, float]:
    low, high = float(logs.min()), float(logs.max())
    room = max(0.05 * (high - low), 0.01)
    return low - room, high + room


def _means(logs: np.ndarray, length: int) -> np.ndarray:
    """Means of the last `length` values up to each; of fewer at the beginning."""
    sums = np.concatenate(([0.0], np.cumsum(logs)))
    ends = np.arange(1, len(logs) + 1)
    starts = np.maximum(0, ends - length)
    return np.asarray((sums[ends] - sums[starts]) / (ends - starts))


def _down(logs: np.ndarray, low: float, high: float) -> np.ndarray:
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * (logs - low) / (high - low)


def _grid(draw: ImageDraw.ImageDraw, low: float, high: float, steps: int) -> None:
    levels = np.linspace(low, high, _GRID_LINES)
    for level, y in zip(levels, _down(levels, low, high), strict=True):
        draw.line([(_LEFT, y), (WIDTH - _RIGHT, y)], fill=_GRID)
        draw.text((_LEFT - 8, y), f"{10**level:.3g}", fill=_INK, anchor="rm")
    bottom = HEIGHT - _BOTTOM + 8
    draw.text((_LEFT, bottom), "step 1", fill=_INK, anchor="lt")
    draw.text((WIDTH - _RIGHT, bottom), f"step {steps}", fill=_INK, anchor="rt")
    draw.text((_LEFT, _TOP - 12), "loss", fill=_INK, anchor="lm")
