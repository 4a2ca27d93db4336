"""Differences of images (PSNR and SSIM of luma), of frames over time and of tensors.

Needs numpy and torch only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from engine.ops.steadiness import enlarged, stillness

Picture = npt.NDArray[np.uint8]
Array = npt.NDArray[np.float64]


def picture_of(frame: torch.Tensor) -> Picture:
    """[3, H, W], nominally 0 to 1, as uint8 [H, W, 3]."""
    codes = frame.float().mul(255).round_().clamp_(0, 255).byte()
    return np.ascontiguousarray(codes.permute(1, 2, 0).numpy())


def luma(picture: Picture) -> Array:
    """BT.601 luma, 16 to 235, of uint8 [h, w, 3]."""
    weights = np.array([65.481, 128.553, 24.966]) / 255
    return np.asarray(picture.astype(np.float64) @ weights + 16)


def psnr(first: Picture, second: Picture, *, border: int = 4) -> float:
    """Peak signal-to-noise ratio of luma in dB, `border` px off each side; inf when equal."""
    a, b = _cropped(first, second, border)
    error = float(np.mean((a - b) ** 2))
    return float("inf") if error == 0 else float(10 * np.log10(255.0**2 / error))


def ssim(first: Picture, second: Picture, *, border: int = 4) -> float:
    """Structural similarity of luma: 11 px Gaussian of sigma 1.5, k = 0.01 and 0.03."""
    a, b = (torch.from_numpy(part)[None, None] for part in _cropped(first, second, border))
    offsets = torch.arange(-5, 6, dtype=torch.float64)
    kernel = torch.exp(-offsets.square() / (2 * 1.5**2))
    kernel = kernel / kernel.sum()

    def mean(x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(F.conv2d(x, kernel[None, None, :, None]), kernel[None, None, None, :])

    ma, mb = mean(a), mean(b)
    va, vb = mean(a * a) - ma * ma, mean(b * b) - mb * mb
    cov = mean(a * b) - ma * mb
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    score = (2 * ma * mb + c1) * (2 * cov + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2))
    return float(score.mean())


@dataclass(slots=True)
class Flicker:
    """Change of a video from frame to frame where its source stands still.

    Memory: a frame of the video and one of the source.
    """

    _squares: float = 0.0
    _still: float = 0.0  # px
    _pixels: int = 0
    _last: tuple[torch.Tensor, torch.Tensor] | None = None

    def add(self, frame: torch.Tensor, source: torch.Tensor) -> None:
        """Take the next frame.

        Args:
            frame: [3, H, W] float32, RGB, nominally 0 to 1.
            source: Its frame of the source, [3, h, w].
        """
        if self._last is not None:
            before, first = self._last
            still = enlarged(stillness(first, source), frame)
            self._squares += float((frame - before).square_().mean(0).mul_(still[0]).sum())
            self._still += float(still.sum())
            self._pixels += still.numel()
        self._last = frame, source

    @property
    def levels(self) -> float:
        """RMS of the differences there, in 8-bit levels; NaN where nothing stands still."""
        return 255 * math.sqrt(self._squares / self._still) if self._still else math.nan

    @property
    def still(self) -> float:
        """Share of the pixels that stand still from one frame to the next."""
        return self._still / self._pixels if self._pixels else 0.0


def relative_error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """RMS of the difference over the RMS of the exact values."""
    difference = found.double() - exact.double()
    return float((difference.square().mean() / exact.double().square().mean()).sqrt())


def _cropped(first: Picture, second: Picture, border: int) -> tuple[Array, Array]:
    if first.shape != second.shape:
        raise ValueError(f"images differ in shape: {first.shape} and {second.shape}")
    inner = slice(border, -border or None)
    return luma(first)[inner, inner], luma(second)[inner, inner]
