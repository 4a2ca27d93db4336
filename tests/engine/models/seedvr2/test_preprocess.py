import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.geometry import Size
from engine.models.seedvr2.plan import (
    LEAST_BLACK,
    MULTIPLE,
    REFLECTED,
    layout_of,
    reference_layout,
)
from engine.models.seedvr2.preprocess import join, overlap_weights, place


def frames_of(width: int, height: int, count: int = 2) -> torch.Tensor:
    return torch.rand(count, 3, height, width)


def test_the_picture_then_its_mirror_image_then_black():
    for width, height in ((33, 20), (16, 32), (9, 9)):
        frames, size = frames_of(width, height), Size(width, height)
        placed = place(frames, layout_of(size))
        torch.testing.assert_close(placed[..., : size.height, : size.width], frames * 2 - 1)
        expected = torch.nn.functional.pad(frames * 2 - 1, (0, 8, 0, 8), mode="reflect")
        torch.testing.assert_close(placed[..., : height + 8, : width + 8], expected)
        assert (placed[..., height + 8 :, :] == -1).all()
        assert (placed[..., width + 8 :] == -1).all()


def test_a_picture_smaller_than_its_mirror_image_goes_on_with_its_first_line():
    for width, height in ((1, 1), (5, 2), (2, 40)):
        frames = frames_of(width, height)
        placed = place(frames, layout_of(Size(width, height)))
        assert placed.isfinite().all()
        corner = placed[..., height + 7, width + 7]
        at = (max(0, height - 9), max(0, width - 9))
        torch.testing.assert_close(corner, frames[..., at[0], at[1]] * 2 - 1)


def test_the_reference_has_black_right_behind_the_picture():
    placed = place(frames_of(10, 18), reference_layout(Size(10, 18)))
    assert placed.shape == (2, 3, 32, 16)
    assert (placed[..., 10:] == -1).all()
    assert (placed[..., 18:, :] == -1).all()


def test_what_a_resize_overshoots_is_clipped():
    frames = torch.tensor([-0.5, 0.5, 1.5]).view(1, 3, 1, 1).expand(1, 3, 4, 4)
    placed = place(frames, reference_layout(Size(4, 4)))[..., :4, :4]
    assert placed[0, :, 0, 0].tolist() == [-1, 0, 1]


def test_frames_of_another_size_are_refused():
    with pytest.raises(ValueError, match="33x20"):
        place(frames_of(33, 20), layout_of(Size(20, 33)))


def test_joining_goes_evenly_from_the_earlier_clip_to_the_later():
    for frames in range(1, 9):
        steps = torch.tensor([1.0, *overlap_weights(frames), 0.0]).diff()
        torch.testing.assert_close(steps, torch.full((frames + 1,), -1 / (frames + 1)))
    earlier, later = torch.zeros(3, 2, 2), torch.ones(3, 2, 2)
    joined = join(earlier, later, overlap_weights(3))
    torch.testing.assert_close(joined[:, 0, 0], torch.tensor([0.25, 0.5, 0.75]))
    same = torch.rand(3, 2, 2)
    torch.testing.assert_close(join(same, same.clone(), overlap_weights(3)), same)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 5000))
def test_every_frame_has_mirrored_and_black_pixels_and_no_more_than_needed(width, height):
    layout = layout_of(Size(width, height))
    for side, padded in ((width, layout.padded.width), (height, layout.padded.height)):
        assert padded % MULTIPLE == 0
        black = padded - side - layout.reflected
        assert LEAST_BLACK <= black < LEAST_BLACK + MULTIPLE
    assert layout.reflected == REFLECTED


def test_usual_pictures_grow_by_one_row_of_tokens_the_references_only_where_needed():
    for height, padded in ((720, 736), (1080, 1104), (2160, 2176)):
        assert layout_of(Size(height, height)).padded.height == padded
    assert reference_layout(Size(1280, 720)).padded == Size(1280, 720)
    assert reference_layout(Size(1920, 1080)).padded == Size(1920, 1088)
