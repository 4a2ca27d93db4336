"""Frames on their way: views, ends of shots, NaN."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.core.errors import NumericOverflow
from engine.core.geometry import Box
from engine.models.video_vae.frame_slices import (
    Ending,
    FiniteCheck,
    as_clip,
    as_frames,
    check_finite,
    cut,
)
from engine.models.video_vae.slicing import slices


def numbered(start: int, stop: int) -> Tensor:
    """Frames [T, 1, 1, 1] that say their number."""
    return torch.arange(start, stop).view(-1, 1, 1, 1)


def filled(count: int, size: int, first: int = 0) -> list[int]:
    """Indices of the frames of a shot of `count`, begun at `first`, in slices of `size`."""
    ending, found = Ending(4, first), []
    for a, b in slices(count - first, size):
        frames = ending.filled(numbered(first + a, first + b), last=first + b == count)
        found += frames.flatten().tolist()
    assert ending.count == count
    return found


def test_the_end_of_a_shot_is_mirrored_up_to_a_whole_latent() -> None:
    cases: dict[int, list[int]] = {
        1: [],
        2: [1, 1, 1],
        3: [1, 0],
        4: [2],
        5: [],
        6: [4, 3, 2],
        11: [9, 8],
        12: [10],
    }
    for count, mirrored in cases.items():
        for size in (4, 8):
            assert filled(count, size) == [*range(count), *mirrored]
    assert filled(23, 4, first=8) == [*range(8, 23), 21, 20], "a shot that was begun later"


def test_clips_and_frames_are_views_of_each_other() -> None:
    frames = torch.rand(5, 3, 4, 6)
    clip = as_clip(frames)
    assert clip.shape == (1, 3, 5, 4, 6)
    assert as_frames(clip).data_ptr() == frames.data_ptr()
    assert torch.equal(as_frames(clip), frames)
    assert torch.equal(cut(frames, Box(1, 2, 3, 2)), frames[..., 2:4, 1:4])


def test_what_is_no_number_is_refused_by_the_part_it_comes_from() -> None:
    values = torch.zeros(3, 4, dtype=torch.float16)
    check_finite(values)
    for value in (torch.nan, torch.inf, -torch.inf):
        values[1, 2] = value
        words = "The values of the decoder became too large for float16"
        with pytest.raises(NumericOverflow, match=words):
            check_finite(values)
        with pytest.raises(NumericOverflow, match="values of the encoder") as caught:
            check_finite(values, "encoder")
        assert caught.value.params["dtype"] == "float16"


def test_the_first_part_is_to_blame_until_it_was_asked() -> None:
    check, fine = FiniteCheck(), torch.zeros(2, 4)
    check.check()
    for encoder in (fine, torch.full((2, 4), torch.inf), fine):
        check.note(encoder, "encoder", torch.float16)
    check.note(torch.full((2, 4), torch.nan), "decoder")
    with pytest.raises(NumericOverflow, match=r"values of the encoder.*float16"):
        check.check()
    check.check()
