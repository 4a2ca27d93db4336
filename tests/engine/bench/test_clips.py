from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from engine.bench import clips
from engine.bench.clips import centre_crop, first_frames, make_clip
from engine.core.errors import InputError
from engine.core.geometry import Size


def test_the_clip_is_the_same_each_time_and_has_detail_and_movement() -> None:
    first, again = (clips._FramePainter(Size(96, 54)) for _ in range(2))
    pictures = [first.paint(number) for number in range(3)]
    assert all(np.array_equal(picture, again.paint(n)) for n, picture in enumerate(pictures))
    assert pictures[0].std() > 15
    assert np.abs(pictures[2].astype(int) - pictures[0]).mean() > 3


def test_a_clip_is_cut_to_lengths_and_sizes_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    make_clip(path, Size(72, 40), 8)
    frames = first_frames(path, 7, 4)
    assert frames.shape == (5, 3, 40, 72)
    assert -1 <= float(frames.min()) < -0.5 < 0.5 < float(frames.max()) <= 1
    assert len(first_frames(path, 99, 4)) == 5, "the film has eight"
    assert torch.equal(centre_crop(frames, None, 16), frames[:, :, 4:36, 4:68])
    assert centre_crop(frames, Size(50, 20), 8).shape == (5, 3, 16, 48)
    with pytest.raises(InputError, match="72x40 are too small"):
        centre_crop(frames, None, 64)
