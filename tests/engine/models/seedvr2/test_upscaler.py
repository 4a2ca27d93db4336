"""What becomes of restored frames: pictures, and what the source has beyond black and white."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.models.seedvr2.upscaler import SeedVr2
from engine.ops.resize import resize
from engine.protocol.plan import WeightsPlan

SIZE = Size(32, 32)


def model(**choices: Any) -> SeedVr2:
    """Without models: only what comes after them is asked for."""
    nowhere = WeightsPlan(path=Path())
    plan = SeedVr2Plan(
        model="seedvr2-3b",
        dit=nowhere,
        vae=nowhere,
        text=nowhere,
        size=SIZE,
        padded=Size(48, 48),
        reflected=8,
        clip=1,
        shared=0,
        **choices,
    )
    nothing = cast(Any, None)
    return SeedVr2(plan, nothing, nothing, torch.zeros(1, 1))


def edge() -> Tensor:
    """Black next to white, [1, 3, 16, 16]."""
    picture = torch.zeros(1, 3, 16, 16)
    picture[..., 8:] = 1
    return picture


def padded(picture: Tensor) -> Tensor:
    """What a decoder would give for a picture, in [-1, 1]."""
    return torch.nn.functional.pad(picture * 2 - 1, (0, 16, 0, 16))


def test_the_ringing_of_a_resized_edge_is_not_put_on_top() -> None:
    source = edge()
    large = resize(source, SIZE)
    assert large.max() > 1.01, "or this would show nothing"
    for colour in ("none", "two-scale"):
        result = model(colour=colour).finished(padded(large.clamp(0, 1)), source)
        assert result.min() >= 0
        assert result.max() <= 1


def test_what_the_source_has_beyond_black_and_white_is_put_back() -> None:
    source = torch.full((1, 3, 16, 16), 1.25)
    result = model(colour="none").finished(padded(torch.full((1, 3, 32, 32), 0.5)), source)
    torch.testing.assert_close(result, torch.full((1, 3, 32, 32), 0.75))
