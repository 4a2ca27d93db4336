"""A scroll area that is as high as what it holds."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.widgets.compact_scroll import CompactScroll
from app.widgets.layouts import column
from app.widgets.parts import label

WIDTH = 300


def test_a_bar_goes_once_all_has_room_though_it_made_itself_needed(qtbot: QtBot) -> None:
    body, line = QWidget(), label(wraps=True)
    column(line, on=body)
    area = CompactScroll(body)
    qtbot.addWidget(area)
    line.ensurePolished()
    words = "word"
    while line.fontMetrics().horizontalAdvance(words + " word") < WIDTH:
        words += " word"  # one line, which has no room beside a bar
    line.setText(f"{words}\n{words}")
    area.resize(WIDTH, 10)
    area.show()
    qtbot.waitUntil(lambda: area.verticalScrollBar().isVisible())
    needed = body.heightForWidth(WIDTH)
    area.resize(WIDTH, needed)
    qtbot.waitUntil(lambda: not area.verticalScrollBar().isVisible())
    assert body.height() == needed
