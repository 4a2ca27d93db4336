"""A small painter on numpy arrays: ellipses, polygons, tapered strokes, letters and noise.

All positions and widths are in pixels of the finished picture; a canvas is `SCALE` times finer, and
the average of SCALE x SCALE points is a clean pixel.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

SCALE = 4  # canvas points per pixel of the finished picture, each way
Array = NDArray[np.float32]
Colour = tuple[float, float, float]
Points = list[tuple[float, float]]

# Strokes of each letter on a grid 4 wide and 6 high, y downwards; drawn for this clip.
GLYPHS: dict[str, list[Points]] = {
    "A": [[(0, 6), (2, 0), (4, 6)], [(0.8, 4), (3.2, 4)]],
    "D": [[(0, 0), (0, 6), (2, 6), (4, 4.6), (4, 1.4), (2, 0), (0, 0)]],
    "E": [[(4, 0), (0, 0), (0, 6), (4, 6)], [(0, 3), (3, 3)]],
    "G": [[(4, 1.2), (3, 0), (1.2, 0), (0, 1.5), (0, 4.5), (1.2, 6), (4, 6), (4, 3.2), (2.4, 3.2)]],
    "I": [[(2, 0), (2, 6)]],
    "K": [[(0, 0), (0, 6)], [(4, 0), (0, 3.4)], [(1.2, 2.5), (4, 6)]],
    "L": [[(0, 0), (0, 6), (4, 6)]],
    "M": [[(0, 6), (0, 0), (2, 3.6), (4, 0), (4, 6)]],
    "N": [[(0, 6), (0, 0), (4, 6), (4, 0)]],
    "O": [
        [(1.2, 0), (0, 1.5), (0, 4.5), (1.2, 6), (2.8, 6), (4, 4.5), (4, 1.5), (2.8, 0), (1.2, 0)]
    ],
    "P": [[(0, 6), (0, 0), (3, 0), (4, 0.9), (4, 2.3), (3, 3.2), (0, 3.2)]],
    "R": [[(0, 6), (0, 0), (3, 0), (4, 0.9), (4, 2.3), (3, 3.2), (0, 3.2)], [(1.8, 3.2), (4, 6)]],
    "S": [
        [(4, 0.8), (3, 0), (1, 0), (0, 0.9), (0, 2.1), (4, 3.9), (4, 5.1), (3, 6), (1, 6), (0, 5.2)]
    ],
    "T": [[(0, 0), (4, 0)], [(2, 0), (2, 6)]],
    "U": [[(0, 0), (0, 4.6), (1.2, 6), (2.8, 6), (4, 4.6), (4, 0)]],
    "V": [[(0, 0), (2, 6), (4, 0)]],
    "W": [[(0, 0), (1, 6), (2, 2), (3, 6), (4, 0)]],
    "0": [
        [(1.2, 0), (0, 1.5), (0, 4.5), (1.2, 6), (2.8, 6), (4, 4.5), (4, 1.5), (2.8, 0), (1.2, 0)]
    ],
    "2": [[(0, 1.2), (1, 0), (3, 0), (4, 1), (4, 2.2), (0, 6), (4, 6)]],
    "4": [[(3, 6), (3, 0), (0, 4.2), (4, 4.2)]],
    "6": [
        [(3.6, 0), (1.2, 1.2), (0, 3.4), (0, 5), (1, 6), (3, 6), (4, 5), (4, 3.8), (3, 3), (0.4, 3)]
    ],
    ".": [[(1.9, 5.8), (2.1, 6)]],
    "-": [[(0.8, 3.2), (3.2, 3.2)]],
}


class Canvas:
    """A picture with premultiplied alpha, [height * SCALE, width * SCALE, 4], 0 to 1."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self.data: Array = np.zeros((height * SCALE, width * SCALE, 4), np.float32)

    def _window(
        self, box: tuple[float, float, float, float]
    ) -> tuple[int, int, Array, Array] | None:
        """Give first row and column of the canvas points in `box`, and their positions in px."""
        x0 = max(int(box[0] * SCALE) - 1, 0)
        y0 = max(int(box[1] * SCALE) - 1, 0)
        x1 = min(int(box[2] * SCALE) + 2, self.data.shape[1])
        y1 = min(int(box[3] * SCALE) + 2, self.data.shape[0])
        if x0 >= x1 or y0 >= y1:
            return None
        x = (np.arange(x0, x1, dtype=np.float32) + 0.5) / SCALE
        y = (np.arange(y0, y1, dtype=np.float32) + 0.5) / SCALE
        return y0, x0, y[:, None], x[None, :]

    def blend(self, top: int, left: int, mask: Array, colour: Colour | Array) -> None:
        """Lay `colour` ([3] or [h, w, 3]) over the canvas where mask ([h, w], 0 to 1) says."""
        part = self.data[top : top + mask.shape[0], left : left + mask.shape[1]]
        part *= 1 - mask[..., None]
        part[..., :3] += mask[..., None] * np.asarray(colour, np.float32)
        part[..., 3] += mask

    def ellipse(
        self, centre: tuple[float, float], radii: tuple[float, float], angle: float, colour: Colour
    ) -> None:
        """Fill an ellipse turned by `angle` (radians)."""
        reach = max(radii)
        cx, cy = centre
        window = self._window((cx - reach, cy - reach, cx + reach, cy + reach))
        if window is None:
            return
        top, left, y, x = window
        u = ((x - cx) * np.cos(angle) + (y - cy) * np.sin(angle)) / radii[0]
        v = ((y - cy) * np.cos(angle) - (x - cx) * np.sin(angle)) / radii[1]
        edge = (1 - np.sqrt(u * u + v * v)) * min(radii) * SCALE
        self.blend(top, left, np.clip(edge + 0.5, 0, 1).astype(np.float32), colour)

    def polygon(self, points: Points, colour: Colour | Array) -> None:
        """Fill a closed polygon by the even-odd rule; colour may be [h, w, 3] of its window."""
        xs, ys = [p[0] for p in points], [p[1] for p in points]
        window = self._window((min(xs), min(ys), max(xs), max(ys)))
        if window is None:
            return
        top, left, y, x = window
        inside = np.zeros((y.shape[0], x.shape[1]), bool)
        for (ax, ay), (bx, by) in zip(points, points[1:] + points[:1], strict=True):
            if ay == by:
                continue
            crossing = (ay > y) != (by > y)
            inside ^= crossing & (x < (bx - ax) * (y - ay) / (by - ay) + ax)
        self.blend(top, left, inside.astype(np.float32), colour)

    def stroke(self, points: Points, widths: tuple[float, float], colour: Colour) -> None:
        """Draw a round polyline that tapers from widths[0] to widths[1]."""
        reach = max(widths)
        xs, ys = [p[0] for p in points], [p[1] for p in points]
        window = self._window((min(xs) - reach, min(ys) - reach, max(xs) + reach, max(ys) + reach))
        if window is None:
            return
        top, left, y, x = window
        mask = np.zeros((y.shape[0], x.shape[1]), np.float32)
        count = len(points) - 1
        for index, ((ax, ay), (bx, by)) in enumerate(pairwise(points)):
            dx, dy = bx - ax, by - ay
            along = np.clip(((x - ax) * dx + (y - ay) * dy) / max(dx * dx + dy * dy, 1e-9), 0, 1)
            distance = np.hypot(x - ax - along * dx, y - ay - along * dy)
            half = (widths[0] + (widths[1] - widths[0]) * (index + along) / count) / 2
            np.maximum(mask, np.clip((half - distance) * SCALE + 0.5, 0, 1), out=mask)
        self.blend(top, left, mask, colour)

    def text(self, text: str, place: tuple[float, float], height: float, colour: Colour) -> None:
        """Write `text` centred on place=(x, top y), with letters `height` px high."""
        unit = height / 6
        advance = 5.6 * unit
        x0 = place[0] - (len(text) * advance - 1.6 * unit) / 2
        for index, letter in enumerate(text):
            for line in GLYPHS.get(letter, []):
                points = [(x0 + index * advance + x * unit, place[1] + y * unit) for x, y in line]
                self.stroke(points, (0.85 * unit, 0.85 * unit), colour)


def fractal_noise(
    rng: np.random.Generator, height: int, width: int, slope: float, stretch: float = 1.0
) -> Array:
    """Make noise whose amplitude falls with frequency ** slope; mean 0, deviation 1.

    `stretch` > 1 draws it out sideways, as clouds and water are.
    """
    fy = np.fft.fftfreq(height)[:, None] * height
    fx = np.fft.rfftfreq(width)[None, :] * width * height / width * stretch
    radius = np.maximum(np.hypot(fy, fx), 1)
    spectrum = np.fft.rfft2(rng.standard_normal((height, width))) / radius**slope
    spectrum[0, 0] = 0
    noise = np.fft.irfft2(spectrum, (height, width))
    return (noise / noise.std()).astype(np.float32)


def fractal_line(rng: np.random.Generator, length: int, slope: float) -> Array:
    """Make a wavy line whose amplitude falls with frequency ** slope; mean 0, deviation 1."""
    spectrum = (
        np.fft.rfft(rng.standard_normal(length))
        / np.maximum(np.arange(length // 2 + 1), 1) ** slope
    )
    spectrum[:2] = 0
    line = np.fft.irfft(spectrum, length)
    return (line / line.std()).astype(np.float32)


def over(below: Array, above: Array) -> Array:
    """Lay a premultiplied picture [h, w, 4] over an opaque one [h, w, 3]."""
    return below * (1 - above[..., 3:]) + above[..., :3]
