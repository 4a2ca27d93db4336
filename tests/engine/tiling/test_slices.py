"""Clips of latents cover a shot once, wait for what they need, and can begin again anywhere."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tiling.slices import (
    FROM_START,
    ClipGrid,
    appended,
    first_frame,
    latent_of,
    padded_length,
)

grids = st.tuples(st.integers(1, 12), st.integers(0, 4)).filter(
    lambda pair: pair[1] == 0 or 2 * pair[1] < pair[0]
)


@settings(max_examples=60, deadline=None)
@given(grids, st.integers(1, 60))
def test_clips_cover_a_shot_and_share_what_they_should(grid: tuple[int, int], count: int) -> None:
    cut = ClipGrid(*grid)
    clips = list(cut.clips(count))
    assert clips[0].start == clips[0].fresh == 0
    assert clips[-1].stop == clips[-1].done == count
    for before, clip in pairwise(clips):
        assert clip.fresh == before.stop
        assert clip.start <= before.stop - cut.shared == before.done
        assert clip.stop > before.stop
    for clip in clips:
        assert clip.stop - clip.start == min(count, cut.length)


@settings(max_examples=60, deadline=None)
@given(grids, st.integers(1, 60))
def test_clips_that_wait_are_those_of_the_whole_shot(grid: tuple[int, int], count: int) -> None:
    cut = ClipGrid(*grid)
    found = []
    for there in range(1, count + 1):
        while (clip := cut.ready(len(found), there, ended=there == count)) is not None:
            found.append(clip)
    assert found == list(cut.clips(count))


@settings(max_examples=100, deadline=None)
@given(grids, st.integers(1, 60), st.data())
def test_beginning_again_needs_nothing_from_before(
    grid: tuple[int, int], count: int, data: st.DataObject
) -> None:
    cut = ClipGrid(*grid)
    latent = data.draw(st.integers(0, count - 1))
    again = cut.restart(latent, encoder_reach=5, decoder_reach=7)
    clips = list(cut.clips(count))
    used = clips[again.clip :]
    assert again.block <= latent < again.block + cut.step
    assert again.decode_from == max(0, again.block - 7)
    # what the decoder is given is made by these clips alone, the mixing included
    assert again.clip == 0 or clips[again.clip - 1].stop <= again.decode_from
    assert min(clip.start for clip in used) >= again.keep_from
    assert again.encode_from == max(0, again.keep_from - 5)


def test_the_start_of_a_shot_is_a_restart() -> None:
    assert ClipGrid(6, 2).restart(3, encoder_reach=28, decoder_reach=37) == FROM_START


@pytest.mark.parametrize(("frame", "latent"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_frames_and_their_latents(frame: int, latent: int) -> None:
    assert latent_of(frame, 4) == latent
    assert first_frame(latent, 4) <= frame < first_frame(latent + 1, 4)


def test_whole_latents_hold_so_many_frames() -> None:
    assert [padded_length(n, 4) for n in (1, 2, 5, 6, 9)] == [1, 5, 5, 9, 9]


def test_impossible_grids_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="cannot share"):
        ClipGrid(4, 2)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 20), st.integers(0, 30))
def test_longer_clips_keep_their_frames_and_add_only_their_own(frames: int, count: int) -> None:
    own = list(range(frames))
    longer = appended(frames, count)
    assert longer[:frames] == own
    assert len(longer) == frames + count
    assert set(longer) == set(own)
    if count < frames:
        assert all(abs(a - b) == 1 for a, b in pairwise(longer))
