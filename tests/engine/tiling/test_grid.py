import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.geometry import Size
from engine.tiling.grid import cells, smallest_tile, tile_grid

GRIDS = {
    "frame": st.builds(Size, st.integers(1, 400), st.integers(1, 400)),
    "tile": st.builds(Size, st.integers(9, 200), st.integers(9, 200)),
    "overlap": st.integers(0, 4),
}


@settings(deadline=None)
@given(**GRIDS)
def test_tiles_cover_every_pixel_stay_inside_and_share_one_shape(frame, tile, overlap):
    boxes = tile_grid(frame, tile, overlap)
    assert len({box.size for box in boxes}) == 1
    columns = sorted({(b.x, b.right) for b in boxes})
    rows = sorted({(b.y, b.bottom) for b in boxes})
    for spans, length in ((columns, frame.width), (rows, frame.height)):
        assert spans[0][0] == 0
        assert spans[-1][1] == max(end for _, end in spans) == length
        assert all(a[1] - b[0] >= overlap for a, b in itertools.pairwise(spans))
    assert len(boxes) == len(columns) * len(rows)


@settings(deadline=None)
@given(**GRIDS)
def test_cells_partition_the_frame_and_keep_off_the_inner_edges(frame, tile, overlap):
    boxes = tile_grid(frame, tile, overlap)
    own = cells(frame, boxes)
    for cell, box in zip(own, boxes, strict=True):
        assert box.x == 0 or cell.x - box.x >= overlap // 2
        assert box.y == 0 or cell.y - box.y >= overlap // 2
        assert box.right == frame.width or box.right - cell.right >= overlap // 2
        assert box.bottom == frame.height or box.bottom - cell.bottom >= overlap // 2
    columns = sorted({(cell.x, cell.right) for cell in own})
    rows = sorted({(cell.y, cell.bottom) for cell in own})
    assert len(own) == len(columns) * len(rows)
    for spans, length in ((columns, frame.width), (rows, frame.height)):
        assert [0, *(end for _, end in spans)] == [*(start for start, _ in spans), length]


@given(**GRIDS)
def test_snug_tiles_are_as_many_and_no_smaller_ones_would_do(frame, tile, overlap):
    fitted = smallest_tile(frame, tile, overlap)
    count = len(tile_grid(frame, tile, overlap))
    assert len(tile_grid(frame, fitted, overlap)) == count
    for axis in ("width", "height"):
        least = getattr(fitted, axis)
        if 2 * overlap + 1 < least < getattr(frame, axis):
            smaller = replace(fitted, **{axis: least - 1})
            assert len(tile_grid(frame, smaller, overlap)) > count


def test_single_tiles():
    assert smallest_tile(Size(41, 10), Size(22, 20), 2) == Size(22, 20)
    assert smallest_tile(Size(43, 10), Size(42, 20), 2) == Size(23, 20)
    (box,) = tile_grid(Size(30, 20), Size(64, 64), 8)
    assert box.size == Size(30, 20)
    with pytest.raises(ValueError, match="overlap"):
        tile_grid(Size(100, 100), Size(20, 20), 10)
    with pytest.raises(ValueError, match="nothing"):
        tile_grid(Size(0, 5), Size(4, 4), 0)
