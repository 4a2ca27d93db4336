"""Random scalar fields from which the training pictures are made.

All functions take a numpy random generator, so a seed fixes the result. Fields are float32
[height, width] with mean about 0 and standard deviation about 1 unless stated otherwise.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

Array = npt.NDArray[np.float32]
Rng = np.random.Generator


def spectral_noise(
    rng: Rng, size: int, slope: float, *, stretch: float = 1.0, angle: float = 0.0
) -> Array:
    """Gaussian field [size, size] whose power falls as frequency to the power of -slope.

    Args:
        rng: Source of the noise.
        size: Side in px.
        slope: 0 is white, 2 is like photographs, 3 and more is smooth.
        stretch: Ratio of the correlation lengths along and across `angle`.
        angle: Direction of the stretch in radians.
    """
    white = rng.standard_normal((size, size), dtype=np.float32)
    fy = np.fft.fftfreq(size).astype(np.float32)[:, None]
    fx = np.fft.rfftfreq(size).astype(np.float32)[None, :]
    along = (np.cos(angle) * fx + np.sin(angle) * fy) * np.float32(stretch)
    across = -np.sin(angle) * fx + np.cos(angle) * fy
    radius2 = along * along + across * across + np.float32((0.7 / size) ** 2)
    shaped = np.fft.irfft2(np.fft.rfft2(white) * radius2 ** np.float32(-slope / 4), s=(size, size))
    return normalised(shaped.astype(np.float32))


def normalised(field: Array) -> Array:
    """The field moved and scaled to mean 0 and standard deviation 1."""
    centred = field - field.mean()
    return np.asarray(centred / (centred.std() + 1e-6), dtype=np.float32)


def smooth_field(rng: Rng, size: int, cells: float) -> Array:
    """Very smooth field with about `cells` bumps along a side; cheap for large sizes."""
    n = max(4, int(cells) + 3)
    grid = torch.from_numpy(rng.standard_normal((1, 1, n, n), dtype=np.float32))
    fine = F.interpolate(grid, size=(size, size), mode="bicubic", align_corners=True)
    return normalised(fine[0, 0].numpy())


def warp(image: Array, dx: Array, dy: Array) -> Array:
    """Sample `image` [h, w] or [h, w, c] at pixel positions displaced by (dx, dy), reflected."""
    planes = image[..., None] if image.ndim == 2 else image
    h, w = planes.shape[:2]
    xs = (np.arange(w, dtype=np.float32)[None, :] + dx) * np.float32(2 / (w - 1)) - 1
    ys = (np.arange(h, dtype=np.float32)[:, None] + dy) * np.float32(2 / (h - 1)) - 1
    grid = torch.from_numpy(np.stack([xs, ys], axis=-1))[None]
    source = torch.from_numpy(np.ascontiguousarray(planes.transpose(2, 0, 1)))[None]
    out = F.grid_sample(
        source, grid, mode="bilinear", padding_mode="reflection", align_corners=True
    )
    result = np.asarray(out[0].numpy().transpose(1, 2, 0), dtype=np.float32)
    return result[..., 0] if image.ndim == 2 else result


def warped(rng: Rng, image: Array, amount: float, cells: float) -> Array:
    """`image` under a random smooth deformation of about `amount` px."""
    size = image.shape[0]
    dx = smooth_field(rng, size, cells) * np.float32(amount)
    dy = smooth_field(rng, size, cells) * np.float32(amount)
    return warp(image, dx, dy)


def cells_field(rng: Rng, size: int, cell: float, jitter: float) -> tuple[Array, Array, Array]:
    """Worley cells: distance to the nearest and second nearest seed, and a value per cell.

    Distances are in units of `cell` px. The value per cell is uniform in [0, 1].
    """
    n = int(size / cell) + 5
    seeds = rng.random((n, n, 2), dtype=np.float32) * np.float32(jitter)
    values = rng.random((n, n), dtype=np.float32)
    coord = np.arange(size, dtype=np.float32) / np.float32(cell) + 2
    base = coord.astype(np.int64)
    first = np.full((size, size), 9, np.float32)
    second = np.full((size, size), 9, np.float32)
    value = np.zeros((size, size), np.float32)
    for oy in (-1, 0, 1):
        for ox in (-1, 0, 1):
            at_y, at_x = (base + oy)[:, None], (base + ox)[None, :]
            py = at_y + seeds[at_y, at_x, 1] - coord[:, None]
            px = at_x + seeds[at_y, at_x, 0] - coord[None, :]
            distance = np.sqrt(px * px + py * py)
            nearer = distance < first
            second = np.where(nearer, first, np.minimum(second, distance))
            value = np.where(nearer, values[at_y, at_x], value)
            first = np.where(nearer, distance, first)
    return first, second, value


def streamed(rng: Rng, size: int, length: int, cells: float) -> Array:
    """Noise smeared along a smooth flow: dense fur, hair, brushed metal, flowing water."""
    angle = smooth_field(rng, size, cells) * np.float32(rng.uniform(0.3, 1.6))
    angle = angle + np.float32(rng.uniform(0, np.pi))
    noise = rng.standard_normal((size, size), dtype=np.float32)
    if rng.random() < 0.5:  # sparse seeds leave single visible hairs
        noise = np.asarray(np.abs(noise) ** 3 * np.sign(noise), dtype=np.float32)
    out = noise
    step = 1.0
    while step < length:  # doubling the reach: log2(length) warps instead of `length`
        dx, dy = np.cos(angle) * np.float32(step), np.sin(angle) * np.float32(step)
        out = out + warp(out, dx, dy)
        step *= 2
    return normalised(out)


def stepped(field: Array, thresholds: Array, softness: float) -> Array:
    """Level sets of a field as plateaus 0, 1, 2... with edges `softness` wide (field units)."""
    total = np.zeros_like(field)
    for threshold in thresholds:
        total += np.clip((field - threshold) / np.float32(softness) + 0.5, 0, 1)
    return total
