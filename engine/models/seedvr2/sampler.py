"""Makes a latent of noise in one step: noise drawn on the CPU, condition, prediction.

A latent between picture and noise is `(1 - t/1000) picture + (t/1000) noise`; the transformer
predicts the velocity `noise - picture`. The published models were made for one step from t = 1000,
so that the result is `noise - prediction`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

NoiseOrder = Literal["per-latent", "reference"]
Predict = Callable[[Tensor, Tensor, float], Tensor]  # latent [T, H, W, 33], text, time step

START = 1000.0  # the time step of pure noise
SPATIAL, TEMPORAL = 8, 4  # pixels of a position, frames of a latent step


def condition(latent: Tensor) -> Tensor:
    """Condition of the transformer: the source's scaled latent [T, H, W, 16] and a mask of 1.

    Returns:
        [T, H, W, 17].
    """
    return torch.cat((latent, torch.ones_like(latent[..., :1])), dim=-1)


def sample(dit: Predict, noise: Tensor, condition: Tensor, text: Tensor) -> Tensor:
    """The latent that fits a condition.

    Args:
        dit: Predicts the velocity.
        noise: [T, H, W, 16].
        condition: [T, H, W, 17], see `condition`; the type and device of the noise.
        text: [L, D].

    Returns:
        [T, H, W, 16].

    Memory: two latents in addition to what the transformer needs.
    """
    return noise - dit(torch.cat((noise, condition), dim=-1), text, START)


def seeded_noise(
    shape: tuple[int, int, int, int],
    seed: int,
    order: NoiseOrder = "per-latent",
    *,
    shot: int = 0,
    first: int = 0,
) -> Tensor:
    """Noise that depends on the seed alone, on every device: it is drawn on the CPU.

    Args:
        shape: (T, H, W, C) of the latent.
        seed: Seed of the job.
        order: "per-latent": each latent step is a function of (seed, shot, its number), so that
            windows of a shot share their noise and any part of a shot can be drawn by itself.
            "reference": the order of the published program, which begins again with every clip.
        shot: Number of the first frame of the shot in the source.
        first: Number in the shot of the first latent step that is wanted.

    Returns:
        [T, H, W, C] float32, normally distributed.
    """
    if order == "reference":
        return reference_noise(shape, torch.Generator().manual_seed(seed))
    steps = range(first, first + shape[0])
    return torch.stack([_noise_of_step(shape[1:], (seed, shot, step)) for step in steps])


def reference_noise(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Drawn as the published program does: channels outermost in memory, not contiguous.

    Returns:
        A view [T, H, W, C] of values [C, T, H, W], float32.
    """
    noise = torch.empty(shape[-1], *shape[:-1]).movedim(0, -1)
    return noise.normal_(generator=generator)


def noisy_latent(latent: Tensor, scale: float, noise: Tensor, more: Tensor) -> Tensor:
    """The condition's latent with some of the noise in it, as the published program adds it.

    Args:
        latent: [T, H, W, 16], scaled.
        scale: 0 (as it is) to 1.
        noise: [T, H, W, 16], what sampling starts from.
        more: [T, H, W, 16], other noise.
    """
    if not scale:
        return latent
    # The published program passes the height as the length, and so on; kept, as it tuned with that.
    share = shifted_timestep(START * scale, latent.shape[1:]) / START
    return torch.lerp(latent, 0.1 * noise + 0.05 * more, share)


def noisy_frames(frames: Tensor, scale: float, noise: Tensor) -> Tensor:
    """Frames in [-1, 1] with some noise added, before they are encoded.

    Args:
        frames: Any shape.
        scale: 0 (as they are) to 1.
        noise: Noise of the same shape, normally distributed.
    """
    return torch.add(frames, noise, alpha=0.025 * scale) if scale else frames


def shifted_timestep(timestep: float, shape: tuple[int, ...] | torch.Size) -> float:
    """A time step moved towards noise, the more so the larger the clip is.

    Args:
        timestep: 0 to 1000.
        shape: (T, H, W) of the latent.
    """
    steps, height, width = shape
    pixels = height * width * SPATIAL**2
    if steps == 1:
        strength = _line(pixels, (256 * 256, 1.0), (1024 * 1024, 3.2))
    else:
        frames = (steps - 1) * TEMPORAL + 1
        strength = _line(frames * pixels, (37 * 256 * 256, 1.0), (145 * 1280 * 720, 5.0))
    share = timestep / START
    return START * strength * share / (1 + (strength - 1) * share)


def _line(x: float, start: tuple[float, float], end: tuple[float, float]) -> float:
    """The value at x of the line through two points."""
    slope = (end[1] - start[1]) / (end[0] - start[0])
    return start[1] + slope * (x - start[0])


def _noise_of_step(shape: tuple[int, ...], key: tuple[int, ...]) -> Tensor:
    digest = hashlib.blake2b(struct.pack(f"<{len(key)}q", *key), digest_size=4).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest))  # it takes 32 bits
    return torch.randn(shape, generator=generator)
