"""A film of our own making to measure on: detail at every scale, movement, edges, some grain."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from engine.core.geometry import Size

RATE = 24  # frames/s
Rgb = NDArray[np.uint8]


def make_clip(path: Path, size: Size, frames: int) -> None:
    """Write `frames` frames of H.264, CRF 20, 4:2:0, to an MP4 file; the same ones each time."""
    painter = _Painter(size)
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(RATE))
        stream.width, stream.height, stream.pix_fmt = size.width, size.height, "yuv420p"
        stream.options = {"crf": "20", "preset": "veryfast"}
        for number in range(frames):
            picture = av.VideoFrame.from_ndarray(painter.paint(number), format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))


class _Painter:
    """Pans over a big still of 1/f noise with flat, sharp-edged shapes in it."""

    def __init__(self, size: Size) -> None:
        self._size = size
        self._random = np.random.default_rng(20260101)
        self._still = _with_shapes(_pink(2 * size.height, 2 * size.width, self._random))

    def paint(self, number: int) -> Rgb:
        """Frame `number`: [h, w, 3]."""
        turn = 2 * np.pi * number / 240
        room_x, room_y = self._size.width, self._size.height
        x = round((0.5 + 0.45 * np.sin(turn)) * room_x)
        y = round((0.5 + 0.45 * np.cos(1.3 * turn)) * room_y)
        part = self._still[y : y + self._size.height, x : x + self._size.width]
        grain = self._random.normal(0, 2, part.shape[:2])[..., None]
        return np.clip(part + grain, 0, 255).astype(np.uint8)


def _pink(height: int, width: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Noise whose detail falls with its frequency, as in photographs: [h, w, 3], 20 to 235."""
    across = np.fft.rfftfreq(width)[None, :, None]
    down = np.fft.fftfreq(height)[:, None, None]
    frequency = np.maximum(np.hypot(across, down), 1 / max(height, width))
    white = np.fft.rfft2(random.normal(size=(height, width, 3)), axes=(0, 1))
    noise = np.fft.irfft2(white / frequency, s=(height, width), axes=(0, 1))
    noise = noise.mean(axis=2, keepdims=True) + 0.3 * noise  # colours mostly move together
    low, high = noise.min(), noise.max()
    return np.asarray(20 + 215 * (noise - low) / (high - low))


def _with_shapes(still: NDArray[np.float64]) -> NDArray[np.float64]:
    height, width = still.shape[:2]
    y, x = np.mgrid[:height, :width]
    random = np.random.default_rng(7)
    for _ in range(60):
        radius = random.uniform(0.01, 0.08) * height
        middle = random.uniform(0, width), random.uniform(0, height)
        disc = (x - middle[0]) ** 2 + (y - middle[1]) ** 2 < radius**2
        still[disc] = 0.3 * still[disc] + 0.7 * random.uniform(16, 235, 3)
    return still
