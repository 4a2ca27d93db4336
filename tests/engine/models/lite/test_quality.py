"""Blockiness separates compressed from clean sources."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.bench.photographs import installed_photographs
from engine.models.lite.degrade import h264_round_trip, reduced
from engine.models.lite.quality import blockiness


def moving_photograph() -> np.ndarray:
    picture = reduced(installed_photographs()["astronaut"], 2)
    return np.stack([picture[t : t + 208, 2 * t : 2 * t + 240] for t in range(4)])


def green(frames: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(frames[..., 1].copy())


def test_compression_raises_it_and_cropping_does_not_hide_it() -> None:
    clean = moving_photograph()
    damaged = h264_round_trip(clean, crf=33)
    assert blockiness(green(clean)) == pytest.approx(1, abs=0.01)
    assert blockiness(green(damaged)) > blockiness(green(clean)) + 0.01
    assert blockiness(green(damaged[:, 3:, 1:])) > blockiness(green(clean)) + 0.01


def test_it_does_not_depend_on_the_scale_of_values() -> None:
    damaged = green(h264_round_trip(moving_photograph(), crf=30))
    wanted = blockiness(damaged)
    assert blockiness(damaged.float() / 255) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("shape", [(2, 8, 40), (1, 40, 8), (1, 1, 1)])
def test_tiny_frames_count_as_clean(shape: tuple[int, int, int]) -> None:
    assert blockiness(torch.rand(shape)) == 1.0


def test_flat_frames_count_as_clean() -> None:
    assert blockiness(torch.full((2, 32, 32), 7.0)) == 1.0
