import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.geometry import Size
from engine.tiling.grid import tile_grid

sizes = st.builds(Size, st.integers(1, 400), st.integers(1, 400))


@given(
    frame=sizes,
    tile=st.builds(Size, st.integers(9, 200), st.integers(9, 200)),
    overlap=st.integers(0, 4),
)
def test_tiles_cover_every_pixel_stay_inside_and_share_one_shape(frame, tile, overlap):
    boxes = tile_grid(frame, tile, overlap)
    assert len({box.size for box in boxes}) == 1
    assert all(
        b.x >= 0 and b.y >= 0 and b.right <= frame.width and b.bottom <= frame.height for b in boxes
    )
    columns = sorted({(b.x, b.right) for b in boxes})
    rows = sorted({(b.y, b.bottom) for b in boxes})
    for spans, length in ((columns, frame.width), (rows, frame.height)):
        assert spans[0][0] == 0
        assert spans[-1][1] == length
        assert all(a[1] - b[0] >= overlap for a, b in itertools.pairwise(spans))
    assert len(boxes) == len(columns) * len(rows)


def test_a_tile_as_large_as_the_frame_is_the_frame():
    (box,) = tile_grid(Size(30, 20), Size(64, 64), 8)
    assert box.size == Size(30, 20)


def test_overlap_of_half_a_tile_is_refused():
    with pytest.raises(ValueError, match="overlap"):
        tile_grid(Size(100, 100), Size(20, 20), 10)


def test_nothing_to_tile_is_refused():
    with pytest.raises(ValueError, match="nothing"):
        tile_grid(Size(0, 5), Size(4, 4), 0)
