"""Small things that were seen to be wrong: cut texts, digits, lists that open elsewhere."""

import dataclasses

import pytest
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from app.i18n import grouped, tr
from app.settings.editors import make_editor
from app.status_bar import plan_lines
from app.widgets.controls import ElidedLabel
from engine.core.errors import SettingsError
from engine.core.geometry import FrameSpan
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench
from tests.app.plan.test_plan_card import plan, say_plan
from tests.app.test_narrow_window import settle
from tests.helpers.plans import on_gpu


def cut(parent: QWidget) -> list[str]:
    """Texts that end early."""
    labels = parent.findChildren(ElidedLabel)
    return [one.whole for one in labels if one.isVisible() and one.text() != one.whole]


def test_figures_below_the_picture_are_never_cut(bench: Bench):
    made = dataclasses.replace(on_gpu(plan()), seconds_low=84.0, seconds_high=600.0)
    say_plan(bench, made)
    bench.do("start")
    figures = bench.window.preview.figures
    for language in ("en", "zh_CN"):
        bench.program.use_language(language)
        for width in (910, 1024, 1180, 1280, 1366):
            bench.window.resize(width, 720)
            settle()
            assert figures.isVisible(), (language, width)
            assert cut(figures) == [], (language, width)
            assert tr("planned") in figures.figure("left").text, (language, width)


def test_the_log_opens_at_its_end(bench):
    for number in range(400):
        bench.program.log.add(f"line {number}")
    bench.do("log")
    settle()
    bar = bench.find("logDock").findChild(QPlainTextEdit).verticalScrollBar()
    assert bar.maximum() > 0
    assert bar.value() == bar.maximum()
    bench.press("closeLog")
    assert not bench.find("logDock").isVisible()
    assert not bench.window.actions_["log"].isChecked()


def test_a_film_that_is_moved_stays_in_sight(bench):
    bench.window.resize(1440, 600)
    for number in range(8):
        bench.add(f"film {number}.mp4")
    view = bench.window.queue_column.view
    settle()
    first = bench.program.queue.rows[0].job_id
    view.select(first)
    for _ in range(6):
        bench.do("move_down")
    settle()
    assert bench.program.queue.position(first) == 6
    assert view.viewport().rect().contains(view.visualRect(view.currentIndex()).center())
    for _ in range(6):
        bench.do("move_up")
    settle()
    assert view.viewport().rect().contains(view.visualRect(view.currentIndex()).center())


def test_digits_are_grouped_alike_everywhere(bench):
    assert tr("{count} {count:frame|frames}", count=172752) == f"{grouped(172752)} frames"
    assert tr("{count} {count:frame|frames}", count=999) == "999 frames"
    assert tr("{count} {count:frame|frames}", count=1) == "1 frame"
    line, *_ = plan_lines(dataclasses.replace(plan(), span=FrameSpan(0, 1204)))
    assert f"{grouped(1204)} frames" in line


def test_only_bit_depths_that_there_are_can_be_chosen(qtbot):
    editor = make_editor("bit_depth")
    qtbot.addWidget(editor)
    box = editor.control
    shown = [(box.itemText(at), box.itemData(at)) for at in range(box.count())]
    assert shown == [("Automatic", 0), ("8 bit", 8), ("10 bit", 10), ("12 bit", 12)]
    editor.set_value(10)
    assert box.currentText() == "10 bit"
    with pytest.raises(SettingsError):
        JobSettings(bit_depth=1)
