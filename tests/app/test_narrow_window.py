"""Nothing that is said is cut off in the smallest window that people have: 1280 x 720.

At 150 % of a 1920 x 1080 screen Qt lays out the same 1280 x 720.
"""

import dataclasses
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget

from app.widgets.controls import ElidedLabel
from engine.protocol import events
from engine.protocol.plan import Notice
from tests.app.conftest import Bench
from tests.app.plan.test_plan_card import SMALLER, TOO_MUCH, plan, say_plan
from tests.app.test_gauges import GPU
from tests.helpers.plans import on_gpu, pretended

pytestmark = pytest.mark.parametrize("language", ["en", "zh_CN"])


def cut_off(parent: QWidget) -> Iterator[str]:
    """Texts that have less room than they need; elided ones say so by themselves."""
    for widget in parent.findChildren(QWidget):
        if not widget.isVisible() or isinstance(widget, ElidedLabel):
            continue
        if isinstance(widget, QLabel) and widget.text():
            if widget.wordWrap():
                needed = widget.heightForWidth(widget.width())
                if widget.height() < needed:
                    yield f"{widget.text()!r}: {widget.height()} of {needed} px high"
            elif widget.width() < widget.sizeHint().width():
                yield f"{widget.text()!r}: {widget.width()} of {widget.sizeHint().width()} px"
        elif isinstance(widget, QPushButton) and widget.width() < widget.minimumSizeHint().width():
            yield f"{widget.text()!r}: {widget.width()} px"


def settle() -> None:
    """Qt lays out what lies in each other one turn after the other."""
    for _ in range(5):
        QApplication.processEvents()
        QApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest)


def make_narrow(bench: Bench, language: str) -> None:
    bench.program.use_language(language)
    bench.window.resize(1280, 720)
    bench.measure(dataclasses.replace(GPU, spilled_mb=1229))
    settle()


def test_gauges_and_a_running_plan_that_became_smaller(bench, language):
    job_id = say_plan(bench, on_gpu(plan()))
    bench.do("start")
    bench.engine.advance(80, fps=0.42)
    about = {"case": "out-of-memory", "params": SMALLER}
    notice = Notice(code="plan-changed", severity="warning", **about)
    bench.engine.sink.emit(
        events.PlanDowngraded(job_id=job_id, plan=on_gpu(plan()), why="spilled", notice=notice)
    )
    make_narrow(bench, language)
    assert list(cut_off(bench.window.top)) == []
    assert list(cut_off(bench.window.decision)) == []


def test_a_refused_plan_with_its_ways_out(bench, language):
    say_plan(bench, dataclasses.replace(on_gpu(plan(), needed=20.0), notices=(TOO_MUCH,)))
    make_narrow(bench, language)
    assert list(cut_off(bench.window.decision)) == []


def test_a_pretended_plan_with_its_reasons(bench, language):
    say_plan(bench, pretended(on_gpu(plan())))
    make_narrow(bench, language)
    bench.press("whyThisPlan")
    settle()
    assert list(cut_off(bench.window.decision)) == []
    assert bench.window.decision.height() < 600  # some of the choices stay in sight


def test_the_pages(bench, language):
    make_narrow(bench, language)
    for page, view in (
        ("settings", bench.program.settings.dialog),
        ("bench", bench.program.bench.view),
    ):
        bench.do(page)
        settle()
        assert list(cut_off(view)) == [], page
        assert view.height() <= 640, "below it are a task bar, above it a title"
        view.close()
