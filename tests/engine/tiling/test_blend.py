import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.geometry import Size
from engine.tiling.blend import WHOLE, Blender, tile_weights
from engine.tiling.grid import tile_grid


def blended(frame: torch.Tensor, tile: Size, overlap: int, margin: int) -> torch.Tensor:
    size = Size(frame.shape[-1], frame.shape[-2])
    blender = Blender(size, margin=margin)
    for box in tile_grid(size, tile, overlap):
        blender.add(frame[..., box.y : box.bottom, box.x : box.right], box, overlap)
    return blender.result()


def test_a_picture_cut_into_tiles_and_blended_is_the_picture():
    frame = torch.rand(2, 3, 70, 93)
    for overlap, margin in ((8, 0), (8, 3), (12, 4), (3, 1)):
        torch.testing.assert_close(blended(frame, Size(32, 28), overlap, margin), frame)
    with pytest.raises(ValueError, match="no tile"):
        Blender(Size(4, 4), margin=0).result()


def test_the_margin_of_a_tile_is_not_used():
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


grids = st.builds(
    lambda width, height, tile, overlap: (Size(width, height), Size(tile, tile + 3), overlap),
    st.integers(1, 150),
    st.integers(1, 150),
    st.integers(25, 60),
    st.integers(0, 12),
)


@settings(max_examples=30, deadline=None)
@given(grid=grids, margin=st.integers(0, 6))
def test_weights_add_up_to_the_whole_at_every_pixel_and_margins_have_none(grid, margin):
    frame, tile, overlap = grid
    margin = min(margin, overlap // 2)
    boxes, total = tile_grid(frame, tile, overlap), torch.zeros(frame.height, frame.width)
    shares = tile_weights(frame, boxes, blend=overlap - 2 * margin)
    for share, box in zip(shares, boxes, strict=True):
        window, weight = share.window, WHOLE if share.weight() is None else share.weight()
        total[window.y : window.bottom, window.x : window.right] += weight
        assert torch.as_tensor(weight).min() >= 0
        assert box.x == 0 or window.x >= box.x + margin
        assert box.y == 0 or window.y >= box.y + margin
        assert box.right == frame.width or window.right <= box.right - margin
        assert box.bottom == frame.height or window.bottom <= box.bottom - margin
    assert torch.equal(total, torch.full_like(total, 65535))


def test_a_tile_without_a_ramp_has_no_weights_to_multiply():
    boxes = tile_grid(Size(40, 20), Size(25, 20), 4)
    plain, feathered = (tile_weights(Size(40, 20), boxes, blend=blend) for blend in (0, 4))
    assert [weights.weight() for weights in plain] == [None, None]
    assert all(weights.weight() is not None for weights in feathered)
    assert feathered[0].rows.unique().tolist() == [255]
