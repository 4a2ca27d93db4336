"""The sampler of the published program: several Euler steps, and guidance away from a second text.

The product takes one step without guidance (`engine.models.seedvr2.sampler.sample`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from engine.models.seedvr2.sampler import START, Predict


@dataclass(frozen=True, slots=True, eq=False)
class Guidance:
    """Away from a second text."""

    negative: Tensor  # [L, D], the text to move away from
    scale: float  # how far; 1 stays at the first text
    rescale: float = 0.0  # 0 to 1, how much of the first prediction's deviation is restored


def timesteps(steps: int) -> list[float]:
    """From pure noise downwards in even steps, the picture (0) left out."""
    return [START * (1 - step / steps) for step in range(steps)]


def sample_in_steps(
    dit: Predict,
    noise: Tensor,
    condition: Tensor,
    text: Tensor,
    *,
    steps: int = 1,
    guidance: Guidance | None = None,
) -> Tensor:
    """The latent that fits a condition [T, H, W, 17]; noise and result are [T, H, W, 16]."""
    latent = noise
    for now, then in pairwise((*timesteps(steps), 0.0)):
        seen = torch.cat((latent, condition), dim=-1)
        velocity = _guided(dit, seen, text, now, guidance)
        latent = torch.add(latent, velocity, alpha=-(now - then) / START)
    return latent


def _guided(
    dit: Predict, seen: Tensor, text: Tensor, timestep: float, guidance: Guidance | None
) -> Tensor:
    """The prediction, moved away from the one for the other text."""
    positive = dit(seen, text, timestep)
    if guidance is None:
        return positive
    negative = dit(seen, guidance.negative, timestep)
    guided = torch.lerp(negative, positive, guidance.scale)
    ratio = positive.std(-1, keepdim=True) / guided.std(-1, keepdim=True)
    return guided * (guidance.rescale * ratio + (1 - guidance.rescale))
