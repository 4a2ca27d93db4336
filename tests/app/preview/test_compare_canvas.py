"""The canvas as it is seen and handled."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, QSizeF, Qt
from PySide6.QtGui import QColor, QImage, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.preview.compare_canvas import CompareCanvas
from app.preview.scene import Mode
from engine.core.geometry import Box, Size

SOURCE, RESULT = QColor(200, 40, 40), QColor(40, 40, 200)


def _image(width: int, height: int, colour: QColor) -> QImage:
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(colour)
    return image


@pytest.fixture
def canvas(qtbot: QtBot) -> CompareCanvas:
    """Red source beside blue result, 16:9, in a widget of that shape."""
    canvas = CompareCanvas()
    qtbot.addWidget(canvas)
    canvas.resize(640, 360)
    canvas.set_content(QSizeF(1280, 720))
    canvas.set_pictures(_image(64, 36, SOURCE), _image(128, 72, RESULT))
    canvas.show()
    return canvas


def _colour(canvas: CompareCanvas, x: int, y: int) -> QColor:
    return canvas.grab().toImage().pixelColor(x, y)


@pytest.mark.parametrize(
    ("mode", "left", "right"),
    [
        (Mode.ORIGINAL, SOURCE, SOURCE),
        (Mode.RESULT, RESULT, RESULT),
        (Mode.SPLIT, SOURCE, RESULT),
        (Mode.SIDE, SOURCE, RESULT),
        (Mode.DIFFERENCE, QColor(255, 0, 255), QColor(255, 0, 255)),
    ],
)
def test_each_view_shows_the_right_picture(
    canvas: CompareCanvas, mode: Mode, left: QColor, right: QColor
) -> None:
    canvas.set_mode(mode)
    assert _colour(canvas, 160, 240) == left
    assert _colour(canvas, 480, 240) == right


def test_dragging_anywhere_in_the_picture_moves_the_line(
    canvas: CompareCanvas, qtbot: QtBot
) -> None:
    canvas.set_mode(Mode.SPLIT)
    qtbot.mousePress(canvas, Qt.MouseButton.LeftButton, pos=QPoint(500, 60))
    qtbot.mouseMove(canvas, QPoint(160, 300))
    qtbot.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=QPoint(160, 300))
    assert canvas.split == pytest.approx(0.25)
    assert _colour(canvas, 100, 240) == SOURCE
    assert _colour(canvas, 240, 240) == RESULT


def test_the_line_is_under_the_cursor_also_next_to_empty_borders(
    canvas: CompareCanvas, qtbot: QtBot
) -> None:
    canvas.resize(840, 360)  # the picture has 640 px in the middle
    canvas.set_mode(Mode.SPLIT)
    qtbot.mousePress(canvas, Qt.MouseButton.LeftButton, pos=QPoint(260, 60))
    qtbot.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=QPoint(260, 60))
    assert canvas.split == pytest.approx(0.25)


def test_the_line_stops_at_the_edges(canvas: CompareCanvas, qtbot: QtBot) -> None:
    canvas.set_mode(Mode.SPLIT)
    qtbot.mousePress(canvas, Qt.MouseButton.LeftButton, pos=QPoint(300, 100))
    qtbot.mouseMove(canvas, QPoint(-500, 100))
    qtbot.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=QPoint(-500, 100))
    assert canvas.split == 0.0


def test_arrow_keys_move_the_line(canvas: CompareCanvas, qtbot: QtBot) -> None:
    canvas.set_mode(Mode.SPLIT)
    qtbot.keyClick(canvas, Qt.Key.Key_Right)
    assert canvas.split == pytest.approx(0.51)
    qtbot.keyClick(canvas, Qt.Key.Key_Left, Qt.KeyboardModifier.ShiftModifier)
    assert canvas.split == pytest.approx(0.41)
    qtbot.keyClick(canvas, Qt.Key.Key_End)
    assert canvas.split == 1.0


def _wheel(canvas: CompareCanvas, at: QPointF, notches: int) -> None:
    event = QWheelEvent(
        at,
        canvas.mapToGlobal(at),
        QPoint(),
        QPoint(0, 120 * notches),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(canvas, event)


@pytest.mark.parametrize("mode", [Mode.RESULT, Mode.SPLIT])
def test_the_wheel_keeps_the_point_under_the_cursor(canvas: CompareCanvas, mode: Mode) -> None:
    canvas.set_mode(mode)
    cursor = QPointF(500, 90)
    before = canvas.scene.viewport.to_content(cursor)
    _wheel(canvas, cursor, 6)
    assert canvas.zoom == pytest.approx(0.5 * 1.25**6)
    after = canvas.scene.viewport.to_content(cursor)
    assert (after - before).manhattanLength() < 1e-6


def test_the_same_spot_stays_below_the_cursor_side_by_side(canvas: CompareCanvas) -> None:
    canvas.set_mode(Mode.SIDE)
    pane = canvas.scene.panes(canvas.rect().toRectF())[1][0]
    cursor = QPointF(pane.left() + 200, 180)
    before = canvas.scene.viewport.to_content(cursor - pane.topLeft())
    _wheel(canvas, cursor, 5)
    after = canvas.scene.viewport.to_content(cursor - pane.topLeft())
    assert (after - before).manhattanLength() < 1e-6


def test_keys_zoom_and_fit(canvas: CompareCanvas, qtbot: QtBot) -> None:
    with qtbot.waitSignal(canvas.zoom_changed):
        qtbot.keyClick(canvas, Qt.Key.Key_1)
    assert canvas.zoom == 1.0
    qtbot.keyClick(canvas, Qt.Key.Key_Plus)
    assert canvas.zoom == 1.25
    qtbot.keyClick(canvas, Qt.Key.Key_0)
    assert canvas.zoom == pytest.approx(0.5)


def test_the_middle_button_moves_a_large_picture(canvas: CompareCanvas, qtbot: QtBot) -> None:
    canvas.set_mode(Mode.SPLIT)
    canvas.zoom_to(2.0)
    before, line = canvas.scene.viewport.target, canvas.split
    qtbot.mousePress(canvas, Qt.MouseButton.MiddleButton, pos=QPoint(300, 200))
    qtbot.mouseMove(canvas, QPoint(330, 180))
    qtbot.mouseRelease(canvas, Qt.MouseButton.MiddleButton, pos=QPoint(330, 180))
    moved = canvas.scene.viewport.target.topLeft() - before.topLeft()
    assert (moved.x(), moved.y()) == (30, -20)
    assert canvas.split == line


def test_the_space_bar_turns_a_drag_into_a_move(canvas: CompareCanvas, qtbot: QtBot) -> None:
    canvas.set_mode(Mode.SPLIT)
    canvas.zoom_to(2.0)
    qtbot.keyPress(canvas, Qt.Key.Key_Space)
    qtbot.mousePress(canvas, Qt.MouseButton.LeftButton, pos=QPoint(300, 200))
    qtbot.mouseMove(canvas, QPoint(310, 200))
    qtbot.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=QPoint(310, 200))
    qtbot.keyRelease(canvas, Qt.Key.Key_Space)
    assert canvas.split == 0.5
    assert canvas.scene.viewport.centre.x() == pytest.approx(640 - 5)


def test_large_pixels_have_hard_edges_and_small_ones_do_not(canvas: CompareCanvas) -> None:
    stripes = QImage(128, 72, QImage.Format.Format_RGB32)
    for x in range(128):
        for y in range(72):
            stripes.setPixelColor(x, y, QColor("white" if x % 2 else "black"))
    canvas.set_content(QSizeF(128, 72))
    canvas.set_pictures(_image(64, 36, SOURCE), stripes)
    canvas.set_mode(Mode.RESULT)
    canvas.zoom_to(4.0)
    assert _row_of_greys(canvas) == {0, 255}
    canvas.zoom_to(1.5)
    assert len(_row_of_greys(canvas)) > 2


def _row_of_greys(canvas: CompareCanvas) -> set[int]:
    image = canvas.grab().toImage()
    middle = image.width() // 2
    return {image.pixelColor(x, 180).red() for x in range(middle - 40, middle + 40)}


def test_a_frame_without_result_shows_its_source_darker(canvas: CompareCanvas) -> None:
    canvas.set_pictures(_image(64, 36, SOURCE), QImage())
    canvas.set_mode(Mode.RESULT)
    shown = _colour(canvas, 160, 300)
    assert shown.red() < SOURCE.red()
    assert shown.red() > shown.blue()


def test_live_tiles_take_the_place_of_the_result(canvas: CompareCanvas) -> None:
    canvas.set_mode(Mode.SPLIT)
    canvas.set_live(True)
    green = _image(64, 72, QColor(40, 200, 40))
    box = Box(640, 0, 640, 720)
    canvas.scene.tile_map.add(0, 1, 2, box, Size(1280, 720), green)
    canvas.tile_changed(box)
    assert _colour(canvas, 500, 240) == QColor(40, 200, 40)
    assert _colour(canvas, 100, 240) == SOURCE
    canvas.set_live(False)
    assert _colour(canvas, 500, 240) == RESULT
