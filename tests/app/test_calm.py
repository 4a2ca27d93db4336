"""Nothing moves on the screen because something was found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QApplication, QWidget

from app.widgets.compact_scroll import CompactScroll
from engine.api import UnfinishedJob
from tests.app.conftest import Bench, _end, _opened
from tests.app.plan.test_plan_card import BARS, COMBED, plan
from tests.app.test_gauges import GPU
from tests.app.test_narrow_window import settle
from tests.app.test_small_screens import lies_inside
from tests.helpers.fake_states import make_listed
from tests.helpers.fake_tasks import RUNTIME

MOST_PX = 4


def places(window: QWidget) -> dict[QWidget, QRect]:
    """Places in the window of all visible widgets that hold no others."""
    return {
        one: QRect(one.mapTo(window, QPoint(0, 0)), one.size())
        for one in window.findChildren(QWidget)
        if one.isVisible() and not one.visibleRegion().isEmpty() and not one.findChild(QWidget)
    }


def moved(before: dict[QWidget, QRect], after: dict[QWidget, QRect]) -> list[str]:
    """Widgets whose upper left corner is elsewhere."""
    found = []
    for one, place in before.items():
        if one in after:
            step = after[one].topLeft() - place.topLeft()
            if max(abs(step.x()), abs(step.y())) > MOST_PX:
                found.append(f"{type(one).__name__} {one.objectName()} {step.x()} {step.y()}")
    return found


SIZES = [(1366, 688), (1920, 1000)]
BEGUN = UnfinishedJob(job_id="old", source=Path("films/old.avi"), output=Path("films/new.mp4"))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("gpu", [None, GPU])
def test_nothing_moves_between_the_first_paint_and_ready(qapp, tmp_path, monkeypatch, size, gpu):
    program = _opened(qapp, tmp_path)
    bench = Bench(program, monkeypatch)
    program.window.resize(*size)
    program.window.show()
    for _ in range(4):
        QApplication.processEvents()
    before = places(program.window)
    program.attach(bench.engine)
    bench.hear()
    bench.measure(gpu)
    bench.hear()
    found = moved(before, places(program.window))
    _end(program)
    assert not found


@pytest.mark.parametrize(
    ("size", "videos"),
    [
        (SIZES[0], 4),
        pytest.param(SIZES[0], 0, marks=pytest.mark.extended),
        pytest.param(SIZES[0], 9, marks=pytest.mark.extended),
        pytest.param(SIZES[1], 9, marks=pytest.mark.extended),
    ],
)
def test_nothing_moves_when_the_program_says_something_by_itself(bench, size, videos):
    bench.window.resize(*size)
    bench.measure(GPU)
    for number in range(videos):
        bench.add(f"{number}.mp4")
    settle()
    program, watched = bench.program, bench.window.queue_column.watch
    bench.engine.tasks.runtimes = make_listed()
    for say in (
        lambda: watched.show_folder("/films", is_on=True, is_away=False),  # as at the start
        lambda: bench.engine.tasks.list(RUNTIME),  # an NVIDIA runtime is offered
        lambda: watched.show_folder("/films", is_on=True, is_away=True),
        lambda: program.left_over.offer((BEGUN,)),
        lambda: program.after_queue.card.show_countdown("shut-down", "", 42),
    ):
        before, width = places(bench.window), bench.window.queue_column.view.viewport().width()
        say()
        bench.hear()
        assert not moved(before, places(bench.window))
        assert bench.window.queue_column.view.viewport().width() == width
    notices = [bench.find(one) for one in ("afterQueueCard", "unfinishedBanner", "runtimeCard")]
    for notice in notices:
        assert [one for one in notices if one.isVisible()] == [notice], "one at a time"
        assert lies_inside(notice)
        before = places(bench.window)
        notice.hide()
        bench.hear()
        assert not moved(before, places(bench.window))


def test_a_folded_queue_has_a_button_for_what_the_program_says(bench, qtbot):
    bench.window.resize(910, 472)
    bench.hear()
    button, sheet = bench.find("openNotices"), bench.window.columns.queue_sheet
    assert not button.isVisible()
    bench.engine.tasks.runtimes = make_listed()
    before = places(bench.window)
    bench.engine.tasks.list(RUNTIME)
    bench.hear()
    assert not moved(before, places(bench.window))
    assert button.isVisible()
    assert not sheet.isVisible(), "it waits until the user asks"
    qtbot.keyClick(button, Qt.Key.Key_Space)
    settle()
    assert sheet.isVisible()
    download = bench.find("runtime-download")
    assert lies_inside(download)
    qtbot.keyClick(sheet, Qt.Key.Key_Escape)
    bench.press("runtime-hide")
    assert not button.isVisible()


def test_a_plan_has_its_height_at_once(bench):
    bench.window.resize(1280, 640)
    job_id = bench.add()
    row = bench.program.queue.find(job_id)
    cards = bench.window.decision.findChild(CompactScroll)
    before = cards.height()
    row.plan = replace(plan(), notices=(COMBED, COMBED, BARS))
    bench.window.decision.show_job(row)
    at_once = cards.height()
    bench.hear()
    assert at_once == cards.height() > before
