import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QImage, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.preview.compare_canvas import CompareCanvas
from app.preview.scene import Mode, difference, fitting, label_rect
from app.theme import tokens
from engine.core.geometry import Box, Size
from tests.app.preview.conftest import image_of

SOURCE, RESULT = QColor(200, 40, 40), QColor(40, 40, 200)
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def canvas(qtbot: QtBot) -> CompareCanvas:
    """Red source next to blue result, 16:9, in a widget of that shape."""
    canvas = CompareCanvas()
    qtbot.addWidget(canvas)
    canvas.resize(640, 360)
    canvas.set_content(QSizeF(1280, 720))
    canvas.set_pictures(image_of(SOURCE, 64, 36), image_of(RESULT, 128, 72))
    canvas.set_mode(Mode.SPLIT)
    canvas.show()
    return canvas


def _colour(canvas: CompareCanvas, x: int, y: int) -> QColor:
    return canvas.grab().toImage().pixelColor(x, y)


def _drag(canvas: CompareCanvas, qtbot: QtBot, begin: QPoint, end: QPoint, button=LEFT) -> None:
    qtbot.mousePress(canvas, button, pos=begin)
    qtbot.mouseMove(canvas, end)
    qtbot.mouseRelease(canvas, button, pos=end)


def test_each_view_shows_the_right_picture(canvas):
    difference = QColor(255, 0, 255)
    for mode, left, right in (
        (Mode.FIRST, SOURCE, SOURCE),
        (Mode.SECOND, RESULT, RESULT),
        (Mode.SPLIT, SOURCE, RESULT),
        (Mode.SIDE, SOURCE, RESULT),
        (Mode.DIFFERENCE, difference, difference),
    ):
        canvas.set_mode(mode)
        assert (_colour(canvas, 160, 240), _colour(canvas, 480, 240)) == (left, right), mode


def test_a_difference_is_as_large_as_the_larger_picture(canvas):
    for sizes in (((64, 36), (128, 72)), ((128, 72), (64, 36))):
        images = [image_of(SOURCE, *size) for size in sizes]
        assert difference(*images).size().toTuple() == (128, 72)


def test_a_label_loses_whole_facts_before_it_is_cut(qapp):
    texts = "Lite 1920×1080, shown at 640×360", "Lite 1920×1080", "Lite"
    shown = [fitting(QRectF(0, 0, width, 200), texts) for width in (400, 200, 100, 50)]
    assert shown == [*texts, "Lite"]


def test_a_name_that_is_too_long_is_cut_and_not_left_out():
    area, name = QRectF(0, 0, 160, 200), "B: SeedVR2 7B 3840×2160, shown at 1920×1080"
    rect = label_rect(area, name, at_right=True)
    assert area.contains(rect)
    assert rect.width() > 100
    assert label_rect(QRectF(0, 0, 60, 200), name, at_right=True).isEmpty()


def test_dragging_moves_the_line_as_far_as_the_edges(canvas, qtbot):
    _drag(canvas, qtbot, QPoint(500, 60), QPoint(160, 300))
    assert canvas.split == pytest.approx(0.25)
    assert (_colour(canvas, 100, 240), _colour(canvas, 240, 240)) == (SOURCE, RESULT)
    _drag(canvas, qtbot, QPoint(300, 100), QPoint(-500, 100))
    assert canvas.split == 0.0


def test_the_line_is_under_the_cursor_also_next_to_empty_borders(canvas, qtbot):
    canvas.resize(840, 360)  # the picture has 640 px in the middle
    _drag(canvas, qtbot, QPoint(260, 60), QPoint(260, 60))
    assert canvas.split == pytest.approx(0.25)


def _wheel(canvas: CompareCanvas, at: QPointF, notches: int) -> None:
    angle, button, key = (
        QPoint(0, 120 * notches),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
    )
    place, phase = canvas.mapToGlobal(at), Qt.ScrollPhase.NoScrollPhase
    event = QWheelEvent(at, place, QPoint(), angle, button, key, phase, False)
    QApplication.sendEvent(canvas, event)


def test_the_wheel_keeps_the_point_under_the_cursor(canvas):
    for mode, x in ((Mode.SECOND, 500), (Mode.SPLIT, 500), (Mode.SIDE, 200)):
        canvas.set_mode(mode)
        canvas.fit()
        origin = canvas.scene.panes(canvas.rect().toRectF())[-1][0].topLeft()
        inside = QPointF(x, 90)
        before, zoom = canvas.scene.viewport.to_content(inside), canvas.zoom
        _wheel(canvas, origin + inside, 6)
        assert canvas.zoom == pytest.approx(zoom * 1.25**6)
        after = canvas.scene.viewport.to_content(inside)
        assert (after - before).manhattanLength() < 1e-6, mode


def test_keys_move_the_line_zoom_and_fit(canvas, qtbot):
    shift = Qt.KeyboardModifier.ShiftModifier
    qtbot.keyClick(canvas, Qt.Key.Key_Right)  # goes a frame forward
    assert canvas.split == 0.5
    qtbot.keyClick(canvas, Qt.Key.Key_Right, shift)
    assert canvas.split == pytest.approx(0.51)
    qtbot.keyClick(canvas, Qt.Key.Key_Left, shift | Qt.KeyboardModifier.ControlModifier)
    assert canvas.split == pytest.approx(0.41)
    qtbot.keyClick(canvas, Qt.Key.Key_End)
    assert canvas.split == 1.0
    with qtbot.waitSignal(canvas.zoom_changed):
        qtbot.keyClick(canvas, Qt.Key.Key_1)
    assert canvas.zoom == 1.0
    qtbot.keyClick(canvas, Qt.Key.Key_Plus)
    assert canvas.zoom == 1.25
    qtbot.keyClick(canvas, Qt.Key.Key_0)
    assert canvas.zoom == pytest.approx(0.5)


def test_middle_button_and_shift_move_a_picture(canvas, qtbot):
    canvas.zoom_to(2.0)
    before, line = canvas.scene.viewport.target.topLeft(), canvas.split
    _drag(canvas, qtbot, QPoint(300, 200), QPoint(330, 180), Qt.MouseButton.MiddleButton)
    moved = canvas.scene.viewport.target.topLeft() - before
    assert (moved.x(), moved.y(), canvas.split) == (30, -20, line)
    centre = canvas.scene.viewport.centre.x()
    shift = Qt.KeyboardModifier.ShiftModifier
    qtbot.mousePress(canvas, LEFT, shift, QPoint(300, 200))
    qtbot.mouseMove(canvas, QPoint(310, 200))
    qtbot.mouseRelease(canvas, LEFT, shift, QPoint(310, 200))
    assert canvas.split == line
    assert canvas.scene.viewport.centre.x() == pytest.approx(centre - 5)


def test_large_pixels_have_hard_edges_and_small_ones_do_not(canvas):
    stripes = image_of(QColor("black"), 128, 72)
    for x in range(1, 128, 2):
        for y in range(72):
            stripes.setPixelColor(x, y, QColor("white"))
    canvas.set_content(QSizeF(128, 72))
    canvas.set_pictures(image_of(SOURCE, 64, 36), stripes)
    canvas.set_mode(Mode.SECOND)
    for zoom, is_hard in ((4.0, True), (1.5, False)):
        canvas.zoom_to(zoom)
        image = canvas.grab().toImage()
        greys = {image.pixelColor(x, 180).red() for x in range(280, 360)}
        assert (greys == {0, 255}) is is_hard


def test_live_tiles_take_the_place_of_the_result_else_the_source_is_darker(canvas):
    canvas.set_live(True)
    green, box = QColor(40, 200, 40), Box(640, 0, 640, 720)
    canvas.scene.tile_map.add(0, 1, 2, box, Size(1280, 720), image_of(green, 64, 72))
    canvas.tile_changed(box)
    assert (_colour(canvas, 100, 240), _colour(canvas, 500, 240)) == (SOURCE, green)
    canvas.set_live(False)
    assert _colour(canvas, 500, 240) == RESULT
    canvas.set_pictures(image_of(SOURCE, 64, 36), QImage())
    canvas.set_mode(Mode.SECOND)
    shown = _colour(canvas, 160, 300)
    assert shown.blue() < shown.red() < SOURCE.red()


def test_pictures_lie_in_the_same_neutral_grey_in_every_theme(canvas):
    canvas.set_content(QSizeF(720, 720))  # borders at both sides
    for theme in ("dark", "light"):
        tokens.use(theme)
        for mode in (Mode.SPLIT, Mode.SIDE):
            canvas.set_mode(mode)
            places = [(8, 180), (632, 180)] if mode is Mode.SPLIT else [(160, 5), (320, 180)]
            shown = {_colour(canvas, *place).name() for place in places}
            assert shown == {tokens.SURROUND}, (theme, mode)
    tokens.use("dark")
