"""Frames blended with their neighbours: the same ones wherever clips begin."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.pipeline.stages.steady import EnlargedClip, Steadying
from engine.video.read.frames import PlanarFrame

FRAMES, SIDE = 11, 48


def clip_of(source: Tensor, large: Tensor, first: int, stop: int) -> EnlargedClip:
    frames = tuple(PlanarFrame(planes=(np.zeros((1, 1), np.uint8),), pts=n) for n in range(FRAMES))
    return EnlargedClip(
        first=first,
        frames=frames[first:stop],
        rgb=source[first:stop],
        alpha=source[first:stop, :1],
        large=large[first:stop].clone(),
    )


def steadied(source: Tensor, large: Tensor, ends: Sequence[int]) -> list[EnlargedClip]:
    """Everything that comes of clips that end before some frames."""
    steadying, found = Steadying(), []
    for first, stop in zip((0, *ends), (*ends, FRAMES), strict=False):
        found += steadying.add(clip_of(source, large, first, stop))
    return [*found, *steadying.end()]


@pytest.fixture(scope="module")
def film() -> tuple[Tensor, Tensor]:
    """Noise on a still picture that moves from frame 6 on, and what a model made of it."""
    random = torch.Generator().manual_seed(0)
    picture = torch.rand(3, SIDE, SIDE, generator=random)
    frames = [picture if n < 6 else picture.roll(3 * n, -1) for n in range(FRAMES)]
    source = torch.stack(frames) + 0.01 * torch.randn(FRAMES, 3, SIDE, SIDE, generator=random)
    large = torch.nn.functional.interpolate(source, scale_factor=2, mode="bicubic")
    return source, large


def test_frames_are_the_same_wherever_clips_begin(film: tuple[Tensor, Tensor]) -> None:
    source, large = film
    whole = torch.cat([part.large for part in steadied(source, large, [])])
    for ends in ([1], [10], [3, 4, 9], range(1, FRAMES), range(2, FRAMES, 2)):
        parts = steadied(source, large, list(ends))
        assert torch.equal(torch.cat([part.large for part in parts]), whole), ends
        assert [part.first for part in parts] == sorted(part.first for part in parts)
        assert [frame.pts for part in parts for frame in part.frames] == [*range(FRAMES)]
        assert torch.equal(torch.cat([part.rgb for part in parts]), source)
        assert torch.equal(torch.cat([part.alpha for part in parts]), source[:, :1])


def test_a_frame_depends_on_its_neighbours_alone(film: tuple[Tensor, Tensor]) -> None:
    source, large = film
    whole = torch.cat([part.large for part in steadied(source, large, [])])
    steadying = Steadying()
    parts = [*steadying.add(clip_of(source, large, 2, FRAMES)), *steadying.end()]
    assert torch.equal(torch.cat([part.large for part in parts])[1:], whole[3:])


def test_still_frames_become_means_and_moving_ones_stay(film: tuple[Tensor, Tensor]) -> None:
    source, large = film
    found = torch.cat([part.large for part in steadied(source, large, [4])])
    mean = (large[1] + 2 * large[2] + large[3]) / 4
    assert torch.allclose(found[2], mean, atol=1e-5)
    assert torch.allclose(found[0], (3 * large[0] + large[1]) / 4, atol=1e-5)
    assert torch.equal(found[6:], large[6:])
