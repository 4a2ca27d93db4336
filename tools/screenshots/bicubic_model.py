"""A community model that shows a real picture: a network whose weights are a bicubic filter."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

_SCALE, _TAPS = 2, (-1, 0, 1)


def write_model(path: Path) -> None:
    """A Compact of two convolutions that enlarges twice, as trainers write it."""
    count = 3 * len(_TAPS) ** 2
    shifts, phases = torch.zeros(count, 3, 3, 3), torch.zeros(3 * _SCALE**2, count, 3, 3)
    for colour, (y, x) in product(range(3), product(_TAPS, repeat=2)):
        shifts[_feature(colour, y, x), colour, y + 1, x + 1] = 1
    for (phase, y, x), weight in _filter().items():
        inner = [max(-1, min(1, at)) for at in (y, x)]  # the rest is what the first one shifts by
        for colour in range(3):
            feature = _feature(colour, y - inner[0], x - inner[1])
            phases[colour * _SCALE**2 + phase, feature, inner[0] + 1, inner[1] + 1] = weight
    state = {
        "body.0.weight": shifts,
        "body.0.bias": torch.zeros(count),
        "body.1.weight": torch.ones(count),  # what is below zero passes unchanged
        "body.2.weight": phases,
        "body.2.bias": torch.zeros(len(phases)),
    }
    torch.save({"params": state}, path)


def _feature(colour: int, y: int, x: int) -> int:
    return (colour * len(_TAPS) + y + 1) * len(_TAPS) + x + 1


def _filter() -> dict[tuple[int, int, int], float]:
    """Weights of the neighbours of a pixel for each of its four parts.

    Keys are the part and the neighbour's place; what the network adds by itself is taken off.
    """
    found = {}
    for y, x in product(range(-2, 3), repeat=2):
        spot = torch.zeros(1, 1, 9, 9)
        spot[0, 0, 4 + y, 4 + x] = 1
        large: Tensor = F.interpolate(spot, scale_factor=_SCALE, mode="bicubic")
        parts = large[0, 0, 8:10, 8:10].flatten()
        for phase, weight in enumerate(parts.tolist()):
            found[phase, y, x] = weight - (1.0 if (y, x) == (0, 0) else 0.0)
    return found
