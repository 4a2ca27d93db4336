import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPointF, QSizeF

from app.preview.viewport import Viewport


def _viewport(ratio: float = 1.0) -> Viewport:
    viewport = Viewport()
    viewport.set_view(QSizeF(800, 450), ratio)
    viewport.set_content(QSizeF(1600, 900))
    return viewport


def test_a_new_picture_is_shown_whole_and_a_larger_result_in_its_place():
    viewport = _viewport()
    assert viewport.zoom == pytest.approx(0.5)
    assert viewport.target.getRect() == pytest.approx((0, 0, 800, 450))
    viewport.set_view(QSizeF(1600, 900), 1.0)
    assert viewport.zoom == pytest.approx(1.0)
    viewport = _viewport()
    viewport.zoom_to(2.0, QPointF(200, 100))
    before = viewport.target
    viewport.set_content(QSizeF(3200, 1800))
    assert viewport.target.getRect() == pytest.approx(before.getRect())
    assert viewport.zoom == pytest.approx(1.0)
    viewport = _viewport(ratio=1.5)
    viewport.zoom_to(1.0)
    assert viewport.target.width() * 1.5 == pytest.approx(1600)


@given(
    x=st.floats(0, 800),
    y=st.floats(0, 450),
    zooms=st.lists(st.floats(0.6, 30), min_size=1, max_size=4),
)
def test_zooming_in_keeps_the_point_under_the_cursor(x, y, zooms):
    viewport, cursor = _viewport(), QPointF(x, y)
    for zoom in sorted(zooms):
        before = viewport.to_content(cursor)
        viewport.zoom_to(zoom, cursor)
        after = viewport.to_content(cursor)
        assert (after - before).manhattanLength() < 1e-6


@given(dx=st.floats(-1e5, 1e5), dy=st.floats(-1e5, 1e5))
def test_a_picture_cannot_be_lost_by_dragging(dx, dy):
    viewport = _viewport()
    viewport.zoom_to(2.0)
    viewport.pan(QPointF(dx, dy))
    middle = viewport.to_content(QPointF(400, 225))
    assert -1e-6 <= middle.x() <= 1600 + 1e-6
    assert -1e-6 <= middle.y() <= 900 + 1e-6
