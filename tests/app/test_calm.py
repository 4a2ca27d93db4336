"""Nothing moves on the screen because something was found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import QApplication, QWidget

from app.widgets.compact_scroll import CompactScroll
from tests.app.conftest import Bench, _end, _opened
from tests.app.plan.test_plan_card import BARS, COMBED, plan
from tests.app.test_gauges import GPU

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


@pytest.mark.parametrize("size", [(1366, 688), (1920, 1000)])
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
