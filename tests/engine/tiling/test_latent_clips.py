from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tiling.latent_clips import (
    FROM_START,
    ClipGrid,
    Lookback,
    Restart,
    first_frame,
    latent_of,
    mirrored_indices,
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
    found = []
    for there in range(1, count + 1):  # the input grows
        while (clip := cut.ready(len(found), there, ended=there == count)) is not None:
            found.append(clip)
    assert found == clips


@settings(max_examples=100, deadline=None)
@given(grids, st.integers(1, 60), st.data())
def test_beginning_again_needs_nothing_from_before(
    grid: tuple[int, int], count: int, data: st.DataObject
) -> None:
    cut = ClipGrid(*grid)
    latent = data.draw(st.integers(0, count - 1))
    again = cut.restart(latent, encoder=Lookback(5), decoder=Lookback(7))
    clips = list(cut.clips(count))
    used = clips[again.clip :]
    assert again.block <= latent < again.block + cut.step
    # the decoder's input depends on these clips alone, blending included
    assert again.clip == 0 or clips[again.clip - 1].stop <= again.decode_from
    assert min(clip.start for clip in used) >= again.keep_from


# Clips of 6 latents that share 2 begin every 4: 0-6, 4-10, 8-14, 12-18, 16-22, 20-26; a later clip
# changes nothing before its own begin. Clips of 5 that share none: 0-5, 5-10, 10-15.
SIX, FIVE = ClipGrid(6, 2), ClipGrid(5, 0)
AGAIN = [
    # latent 20 begins a block; 20 - 7 = 13 is first in 8-14, and a short shot's clip may begin at 4
    (SIX, 20, Lookback(5), Lookback(7), Restart(0, 4, 2, 13, 20)),
    (SIX, 20, Lookback(3), Lookback(7), Restart(1, 4, 2, 13, 20)),
    (SIX, 23, Lookback(3), Lookback(7), Restart(1, 4, 2, 13, 20)),  # of the same block
    (SIX, 24, Lookback(3), Lookback(7), Restart(5, 8, 3, 17, 24)),
    # 20 - 6 = 14 is not in 8-14 any more, 20 - 2 = 18 not in 12-18
    (SIX, 20, Lookback(3), Lookback(6), Restart(5, 8, 3, 14, 20)),
    (SIX, 20, Lookback(3), Lookback(2), Restart(9, 12, 4, 18, 20)),
    (SIX, 20, Lookback(3), Lookback(3), Restart(5, 8, 3, 17, 20)),
    # so far back that the shot's start is near
    (SIX, 12, Lookback(3), Lookback(7), Restart(0, 0, 0, 5, 12)),
    (SIX, 12, Lookback(3), Lookback(6), Restart(0, 0, 1, 6, 12)),
    (SIX, 3, Lookback(28), Lookback(37), FROM_START),
    (FIVE, 10, Lookback(1), Lookback(0), Restart(4, 5, 2, 10, 10)),
    (FIVE, 14, Lookback(1), Lookback(1), Restart(0, 0, 1, 9, 10)),
    # spans of 3 and of 8 latents: 8 is in 6-9, 20 in 16-24
    (SIX, 24, Lookback(2, span=3), Lookback(7), Restart(4, 8, 3, 17, 24)),
    (SIX, 20, Lookback(2), Lookback(1, span=8), Restart(6, 8, 3, 15, 20)),
]


@pytest.mark.parametrize(("cut", "latent", "encoder", "decoder", "wanted"), AGAIN)
def test_where_to_begin_again(
    cut: ClipGrid, latent: int, encoder: Lookback, decoder: Lookback, wanted: Restart
) -> None:
    assert cut.restart(latent, encoder=encoder, decoder=decoder) == wanted


@given(grids, st.integers(0, 40))
def test_a_latent_is_final_once_there_are_enough(grid: tuple[int, int], latent: int) -> None:
    cut = ClipGrid(*grid)
    number = cut.clip_that_ends(latent)
    enough = cut.enough_for(number)
    assert cut.ready(number, enough - 1, ended=False) is None
    clip = cut.ready(number, enough, ended=False)
    assert clip is not None
    assert clip.done - cut.step <= latent < clip.done


def test_frames_and_their_latents() -> None:
    assert [latent_of(frame, 4) for frame in (0, 1, 4, 5, 8, 9)] == [0, 1, 1, 2, 2, 3]
    for frame in range(20):
        latent = latent_of(frame, 4)
        assert first_frame(latent, 4) <= frame < first_frame(latent + 1, 4)
    assert [padded_length(n, 4) for n in (1, 2, 5, 6, 9)] == [1, 5, 5, 9, 9]


def test_impossible_grids_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot share"):
        ClipGrid(4, 2)


@given(st.integers(1, 20), st.integers(0, 30))
def test_mirrored_indices_begin_with_all_and_repeat_none_at_once(count: int, extra: int) -> None:
    indices = mirrored_indices(count, extra)
    assert indices[:count] == list(range(count))
    assert len(indices) == count + extra
    assert set(indices) == set(range(count))
    if extra < count:
        assert all(abs(a - b) == 1 for a, b in pairwise(indices))
