from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.models.seedvr2.dit.config import Grid, Window, window_size, windows

COUNTS = (4, 3, 3)
GRIDS = st.tuples(st.integers(1, 40), st.integers(1, 70), st.integers(1, 70))


@settings(max_examples=25, deadline=None)
@given(GRIDS, st.booleans(), st.tuples(*[st.integers(1, 5)] * 3))
def test_every_token_is_in_one_window(grid: Grid, shifted: bool, counts: Grid) -> None:
    found = windows(grid, counts, shifted)
    tokens = [
        place
        for window in found
        for place in product(*(range(part.start, part.stop) for part in window.slices))
    ]
    assert sorted(tokens) == list(product(*map(range, grid)))
    assert all(window.tokens > 0 for window in found)


@settings(max_examples=25, deadline=None)
@given(GRIDS)
def test_no_window_is_larger_than_a_whole_one(grid: Grid) -> None:
    size = window_size(grid, COUNTS)
    for shifted in (False, True):
        for window in windows(grid, COUNTS, shifted):
            assert all(side <= most for side, most in zip(window.shape, size, strict=True))


def test_larger_pictures_have_more_windows_of_one_size() -> None:
    for height, width in ((45, 80), (68, 120), (135, 240)):
        assert window_size((1, height, width), COUNTS) == (1, 15, 27)


def test_an_axis_of_one_window_is_not_shifted() -> None:
    assert windows((1, 15, 27), (4, 1, 1), shifted=True) == [Window(0, 1, 0, 15, 0, 27)]
