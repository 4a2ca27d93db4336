from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.geometry import Size
from tests.reference.frames import (
    clip_length,
    mirrored_indices_before,
    reference_overlap_weights,
    reference_sizes,
    resize_as_reference,
)


def test_a_second_resize_only_where_the_first_is_too_large():
    assert resize_as_reference(torch.rand(2, 3, 30, 64), 48, 80).shape[-2:] == (38, 80)
    assert resize_as_reference(torch.rand(2, 3, 30, 64), 48, 102).shape[-2:] == (48, 102)


@pytest.mark.parametrize("frames", [1, 2, 4])
def test_short_overlaps_of_the_reference_are_hard_cuts(frames):
    assert set(reference_overlap_weights(frames)) <= {0.0, 1.0}


def test_a_limit_that_is_not_reached_changes_nothing():
    assert reference_sizes(Size(64, 36), 72) == reference_sizes(Size(64, 36), 72, 128)
    assert reference_sizes(Size(64, 36), 72, 127) == (Size(128, 72), Size(127, 71))


@pytest.mark.parametrize(("frames", "length"), [(1, 1), (2, 5), (5, 5), (6, 9), (9, 9), (10, 13)])
def test_clips_are_as_long_as_the_model_takes(frames, length):
    assert clip_length(frames) == length


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 20), st.integers(0, 30))
def test_frames_in_front_are_mirrored(frames: int, count: int) -> None:
    longer = mirrored_indices_before(frames, count)
    assert longer[count:] == list(range(frames))
    assert len(longer) == frames + count
    assert set(longer) == set(range(frames))
    if count < frames:
        assert all(abs(a - b) == 1 for a, b in pairwise(longer))
