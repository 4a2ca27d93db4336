"""The edge of the queue: dragged with the mouse, there again at the next start."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QSplitter

from app.application import Program
from app.theme import tokens
from app.ui_state import UiState
from tests.app.conftest import _end, part
from tests.app.test_narrow_window import cut_off, settle


def drag(window, by: int) -> None:
    """Take the edge of the queue and move it."""
    handle = part(window, "columnsSplitter", QSplitter).handle(1)
    middle = handle.rect().center()
    left = Qt.MouseButton.LeftButton
    QTest.mousePress(handle, left, pos=middle)
    QTest.mouseMove(handle, middle + QPoint(by, 0))
    QTest.mouseRelease(handle, left, pos=middle)
    settle()


def width(bench) -> int:
    return bench.find("queueColumn").width()


def test_the_edge_can_be_taken_and_gives_the_image_its_room(bench):
    stage = bench.find("previewView").width()
    assert width(bench) == tokens.QUEUE_WIDTH
    assert part(bench.window, "columnsSplitter", QSplitter).handle(1).width() >= 4
    drag(bench.window, -20)
    assert width(bench) == tokens.QUEUE_WIDTH - 20
    assert bench.find("previewView").width() == stage + 20
    drag(bench.window, -30)
    assert width(bench) == tokens.QUEUE_LEAST
    drag(bench.window, 900)
    assert width(bench) == tokens.QUEUE_MOST


def test_at_its_narrowest_no_text_of_the_queue_is_cut(bench):
    for number in range(12):
        bench.add(f"{number}.mp4")
    drag(bench.window, -100)
    assert width(bench) == tokens.QUEUE_LEAST
    assert list(cut_off(bench.find("queueColumn"))) == []


def test_dragged_narrow_the_queue_folds_and_its_button_unfolds_it(bench):
    bench.add()
    drag(bench.window, -200)
    assert bench.find("queueStrip").isVisible()
    assert not bench.find("queueColumn").isVisible()
    bench.press("openQueue")
    settle()
    assert width(bench) == tokens.QUEUE_WIDTH
    assert not bench.find("queueStrip").isVisible()
    assert not bench.find("queueSheet").isVisible()


def test_a_folded_queue_can_be_dragged_open(bench):
    drag(bench.window, -200)
    drag(bench.window, 300)
    assert 300 < width(bench) <= tokens.QUEUE_MOST


def test_a_small_window_takes_back_what_a_large_one_gave(bench):
    drag(bench.window, 200)
    bench.window.resize(1200, 768)
    settle()
    assert width(bench) == tokens.QUEUE_WIDTH + 20
    bench.window.resize(1000, 700)
    settle()
    drag(bench.window, 100)
    assert bench.find("queueStrip").width() == tokens.STRIP_WIDTH
    bench.window.resize(1440, 900)
    settle()
    assert width(bench) == tokens.QUEUE_WIDTH + 200, "as the user left it"


@pytest.mark.parametrize(("by", "kept"), [(-15, tokens.QUEUE_WIDTH - 15), (-250, 0)])
def test_the_place_is_there_again_at_the_next_start(bench, qapp, tmp_path, by, kept):
    drag(bench.window, by)
    bench.program.ui_state.save()
    again = Program(qapp, ui_state=UiState(tmp_path / "window.ini"))
    again.window.resize(1440, 900)
    again.window.show()
    settle()
    assert again.ui_state.queue_width == kept
    assert part(again.window, "queueColumn").isVisible() is bool(kept)
    if kept:
        assert part(again.window, "queueColumn").width() == kept
    _end(again)


@pytest.mark.parametrize("text", ["", "wide", "-5", "100000"])
def test_a_width_that_makes_no_sense_is_no_width(tmp_path, text):
    state = UiState(tmp_path / "window.ini")
    state.store.setValue("queue_width", text)
    assert 0 <= state.queue_width <= tokens.QUEUE_MOST
