import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.geometry import Size
from engine.tiling.blend import WHOLE, Blender, shares
from engine.tiling.grid import tile_grid


def blended(frame: torch.Tensor, tile: Size, overlap: int, margin: int) -> torch.Tensor:
    size = Size(frame.shape[-1], frame.shape[-2])
    blender = Blender(size, margin=margin)
    for box in tile_grid(size, tile, overlap):
        blender.add(frame[..., box.y : box.bottom, box.x : box.right], box, overlap)
    return blender.result()


@pytest.mark.parametrize(("overlap", "margin"), [(8, 0), (8, 3), (12, 4), (3, 1)])
def test_a_picture_cut_into_tiles_and_blended_is_the_picture(overlap, margin):
    frame = torch.rand(2, 3, 70, 93)
    torch.testing.assert_close(blended(frame, Size(32, 28), overlap, margin), frame)


def test_what_the_model_saw_at_the_end_of_a_tile_is_not_used():
    canvas, margin, overlap = Size(60, 20), 3, 10
    blender = Blender(canvas, margin=margin)
    for box in tile_grid(canvas, Size(35, 20), overlap):
        tile = torch.zeros(1, 1, box.height, box.width)
        if box.x > 0:
            tile[..., :margin] = 100.0
        if box.right < canvas.width:
            tile[..., -margin:] = 100.0
        blender.add(tile, box, overlap)
    assert blender.result().abs().max() == 0


def test_two_different_tiles_meet_without_a_step():
    blender = Blender(Size(47, 8), margin=0)
    left, right = tile_grid(Size(47, 8), Size(31, 8), 15)
    blender.add(torch.zeros(1, 1, 8, 31), left, 15)
    blender.add(torch.ones(1, 1, 8, 31), right, 15)
    row = blender.result()[0, 0, 0]
    assert (row[1:] - row[:-1]).max() < 0.07


def test_no_tile_at_all_is_a_mistake():
    with pytest.raises(ValueError, match="no tile"):
        Blender(Size(4, 4), margin=0).result()


grids = st.builds(
    lambda width, height, tile, overlap: (Size(width, height), Size(tile, tile + 3), overlap),
    st.integers(1, 150),
    st.integers(1, 150),
    st.integers(25, 60),
    st.integers(0, 12),
)


@settings(max_examples=25, deadline=None)
@given(grid=grids, blend=st.integers(0, 12))
def test_shares_of_all_tiles_make_the_whole_at_every_pixel(grid, blend):
    frame, tile, overlap = grid
    total = torch.zeros(frame.height, frame.width)
    for share in shares(frame, tile_grid(frame, tile, overlap), blend=min(blend, overlap)):
        box, weight = share.window, share.weight()
        assert weight is None or weight.min() >= 0
        total[box.y : box.bottom, box.x : box.right] += WHOLE if weight is None else weight
    assert torch.equal(total, torch.full_like(total, 65535))


@settings(max_examples=25, deadline=None)
@given(grid=grids, margin=st.integers(0, 6))
def test_shares_leave_the_margin_of_a_tile_out(grid, margin):
    frame, tile, overlap = grid
    margin = min(margin, overlap // 2)
    boxes = tile_grid(frame, tile, overlap)
    for share, box in zip(shares(frame, boxes, blend=overlap - 2 * margin), boxes, strict=True):
        assert box.x == 0 or share.window.x >= box.x + margin
        assert box.y == 0 or share.window.y >= box.y + margin
        assert box.right == frame.width or share.window.right <= box.right - margin
        assert box.bottom == frame.height or share.window.bottom <= box.bottom - margin


def test_a_share_without_a_ramp_has_no_weights_to_multiply():
    boxes = tile_grid(Size(40, 20), Size(25, 20), 4)
    assert [share.weight() for share in shares(Size(40, 20), boxes, blend=0)] == [None, None]
    feathered = shares(Size(40, 20), boxes, blend=4)
    assert all(share.weight() is not None for share in feathered)
    assert feathered[0].rows.unique().tolist() == [255]
