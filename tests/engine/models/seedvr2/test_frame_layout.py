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

SIDES = st.integers(1, 5000)


@settings(max_examples=25, deadline=None)
@given(SIDES, SIDES)
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
