"""Nothing that is said is cut off in the smallest window that people have: 1280 x 720.

At 150 % of a 1920 x 1080 screen Qt lays out the same 1280 x 720.
"""

import dataclasses
from collections.abc import Iterator

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget

from app.widgets.controls import ElidedLabel
from engine.protocol import events
from engine.protocol.plan import Notice
from tests.app.conftest import Bench
from tests.app.plan.test_plan_card import SMALLER, TOO_MUCH, plan, say_plan
from tests.app.test_gauges import GPU
from tests.helpers.plans import on_gpu, pretended


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


def languages_of_narrow(bench: Bench) -> Iterator[str]:
    """Makes the window narrow and shows it in each language."""
    bench.window.resize(1280, 720)
    bench.measure(dataclasses.replace(GPU, spilled_mb=1229))
    for language in ("zh_CN", "en"):
        bench.program.use_language(language)
        settle()
        yield language


def test_gauges_and_a_running_plan_that_became_smaller(bench):
    job_id = say_plan(bench, on_gpu(plan()))
    bench.do("start")
    bench.engine.advance(80, fps=0.42)
    about = {"case": "out-of-memory", "params": SMALLER}
    notice = Notice(code="plan-changed", severity="warning", **about)
    bench.engine.sink.emit(
        events.PlanDowngraded(job_id=job_id, plan=on_gpu(plan()), why="spilled", notice=notice)
    )
    for _ in languages_of_narrow(bench):
        assert list(cut_off(bench.window.top)) == []
        assert list(cut_off(bench.window.decision)) == []


def test_a_refused_plan_with_its_ways_out(bench):
    say_plan(bench, dataclasses.replace(on_gpu(plan(), needed=20.0), notices=(TOO_MUCH,)))
    for _ in languages_of_narrow(bench):
        assert list(cut_off(bench.window.decision)) == []


def test_a_pretended_plan_with_its_reasons(bench):
    say_plan(bench, pretended(on_gpu(plan())))
    for _ in languages_of_narrow(bench):
        bench.press("whyThisPlan")
        settle()
        assert list(cut_off(bench.window.decision)) == []
        assert bench.window.decision.height() < 600  # some of the choices stay in sight
        bench.press("whyThisPlan")


def test_the_pages(bench):
    pages = {"settings": bench.program.settings.dialog, "bench": bench.program.bench.view}
    for language in languages_of_narrow(bench):
        for page, view in pages.items():
            bench.do(page)
            settle()
            assert list(cut_off(view)) == [], page
            assert view.height() <= 640, f"{language}: task bar below {page}, a title above it"
            view.close()
