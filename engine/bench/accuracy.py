"""Differences of pictures (PSNR and SSIM of luma) and of tensors. Needs numpy and torch only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

Picture = npt.NDArray[np.uint8]
Array = npt.NDArray[np.float64]


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


def relative_error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """RMS of the difference over the RMS of the exact values."""
    difference = found.double() - exact.double()
    return float((difference.square().mean() / exact.double().square().mean()).sqrt())


def _cropped(first: Picture, second: Picture, border: int) -> tuple[Array, Array]:
    if first.shape != second.shape:
        raise ValueError(f"pictures differ in shape: {first.shape} and {second.shape}")
    inner = slice(border, -border or None)
    return luma(first)[inner, inner], luma(second)[inner, inner]
