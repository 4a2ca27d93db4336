import pytest
import torch

from engine.geometry import Size
from engine.tiling.blend import Blender
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
