"""Latents of the Wan VAEs: their spaces, raw and normalised values, and a guess which they are.

Raw values are those of a VAE. Normalised ones, for transformers, have the mean of each channel
subtracted and are divided by its deviation. Loads no torch by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from engine.models.latents import Guess

if TYPE_CHECKING:
    from torch import Tensor

TEMPORAL_FACTOR = 4  # frames for each latent but the first
_CHANNELS = -4  # axis, of [..., C, t, h, w]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentSpace:
    """Latent space of one VAE."""

    model: str  # id of the VAE
    title: str  # name of its models, for users
    factor: int  # pixels of a frame for each position, across and down
    rate: Fraction  # frames/s of the videos that its models make
    mean: tuple[float, ...]  # mean of each channel over many videos, as published
    std: tuple[float, ...]

    @property
    def channels(self) -> int:
        """Values of each position."""
        return len(self.mean)


WAN21 = LatentSpace(
    model="wan21-vae",
    title="Wan 2.1",
    factor=8,
    rate=Fraction(16),
    mean=(
        -0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
        0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921,
    ),
    std=(
        2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
        3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160,
    ),
)  # fmt: skip
WAN22 = LatentSpace(
    model="wan22-vae",
    title="Wan 2.2 5B",
    factor=16,
    rate=Fraction(24),
    mean=(
        -0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174, 0.1838, 0.1557,
        -0.1382, 0.0542, 0.2813, 0.0891, 0.1570, -0.0098, 0.0375, -0.1825,
        -0.2246, -0.1207, -0.0698, 0.5109, 0.2665, -0.2108, -0.2158, 0.2502,
        -0.2055, -0.0322, 0.1109, 0.1567, -0.0729, 0.0899, -0.2799, -0.1230,
        -0.0313, -0.1649, 0.0117, 0.0723, -0.2839, -0.2083, -0.0520, 0.3748,
        0.0152, 0.1957, 0.1433, -0.2944, 0.3573, -0.0548, -0.1681, -0.0667,
    ),
    std=(
        0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.4990, 0.4818, 0.5013,
        0.8158, 1.0344, 0.5894, 1.0901, 0.6885, 0.6165, 0.8454, 0.4978,
        0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146, 0.8986, 0.5659,
        0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093,
        0.5709, 0.6065, 0.6415, 0.4944, 0.5726, 1.2042, 0.5458, 1.6887,
        0.3971, 1.0600, 0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744,
    ),
)  # fmt: skip
SPACES = {space.channels: space for space in (WAN21, WAN22)}
MODELS = {space.model: space for space in SPACES.values()}


def frames_of(length: int) -> int:
    """Number of frames that n latents give."""
    return TEMPORAL_FACTOR * (length - 1) + 1


def normalised(latent: Tensor) -> Tensor:
    """Raw latents [..., C, t, h, w] of either space, normalised: (raw - mean) * (1 / std)."""
    mean, reciprocal = _statistics(latent)
    return (latent - mean) * reciprocal


def raw(latent: Tensor) -> Tensor:
    """Normalised latents [..., C, t, h, w] as a VAE takes them: normalised / (1 / std) + mean."""
    mean, reciprocal = _statistics(latent)
    return latent / reciprocal + mean


def _statistics(latent: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and reciprocal deviation [C, 1, 1, 1]; the reciprocal is rounded, as published."""
    import torch

    space = SPACES[latent.shape[_CHANNELS]]
    mean, std = (
        torch.tensor(values, dtype=latent.dtype, device=latent.device)[:, None, None, None]
        for values in (space.mean, space.std)
    )
    return mean, 1 / std


# How single clips differ from the average of many: assumed, since no published figures exist.
_MEAN_SPREAD = 0.6  # of a channel's mean, in deviations of the channel
_LEVEL = (-0.25, 0.5)  # logarithm of all deviations together: usual value and spread
_SHAPE_SPREAD = 0.3  # of a channel's deviation around that level, as a logarithm
_USUALLY_RAW = 4.0  # evidence before looking: ComfyUI's own nodes save raw values
_SURE = 5.0  # of evidence
_FLAT = 1e-6  # a clip with less deviation shows nothing


def guess(means: Sequence[float], deviations: Sequence[float]) -> Guess:
    """Judge by the statistics of each channel of a latent.

    A clip varies less than the videos that the published values were measured on, so that all its
    deviations are smaller: their ratios are compared, not their size.
    """
    space = SPACES[len(means)]
    if max(deviations) < _FLAT:
        return Guess(reading="raw", is_sure=False, evidence=0.0)
    ones, zeros = (1.0,) * len(means), (0.0,) * len(means)
    unlikely_raw = _surprise(means, deviations, space.mean, space.std)
    unlikely_normalised = _surprise(means, deviations, zeros, ones)
    evidence = _USUALLY_RAW + unlikely_normalised - unlikely_raw
    return Guess(
        reading="raw" if evidence >= 0 else "normalised",
        is_sure=abs(evidence) >= _SURE,
        evidence=evidence,
    )


def _surprise(
    means: Sequence[float],
    deviations: Sequence[float],
    wanted_means: Sequence[float],
    wanted: Sequence[float],
) -> float:
    """Negative logarithm of how likely these statistics are, up to a constant."""
    ratios = [math.log(max(s, 1e-6) / w) for s, w in zip(deviations, wanted, strict=True)]
    level = sum(ratios) / len(ratios)
    usual, spread = _LEVEL
    shape = sum(((ratio - level) / _SHAPE_SPREAD) ** 2 for ratio in ratios)
    place = sum(
        ((m - wanted_mean) / (w * _MEAN_SPREAD)) ** 2 + 2 * math.log(w)
        for m, wanted_mean, w in zip(means, wanted_means, wanted, strict=True)
    )
    return 0.5 * (shape + place + ((level - usual) / spread) ** 2)
