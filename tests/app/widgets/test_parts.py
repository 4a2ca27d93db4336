"""Parts made in one call: laid out as Qt would, and shown again in another language or theme."""

from functools import partial

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QScrollArea, QWidget

from app.bound import bind, show_language, show_theme
from app.i18n import Languages, tr
from app.widgets.layouts import STRETCH, TOP, Stretch, column, grid, row
from app.widgets.parts import button, icon_button, label


@pytest.fixture
def languages(qapp):
    made = Languages(qapp)
    yield made
    made.use("en")


def test_texts_names_and_tips_follow_the_language(qtbot, languages):
    pressed = []
    title = label("Queue")
    closes = icon_button("cancel", "Close", tip="Close (Esc)", on=lambda: pressed.append("x"))
    counts = button(lambda: tr("{count} videos", count=2), says="Queue", tip="Close")
    for part in (title, closes, counts):
        qtbot.addWidget(part)
    languages.use("zh_CN")
    assert (title.text(), counts.text()) == (tr("Queue"), tr("{count} videos", count=2))
    assert (closes.accessibleName(), counts.accessibleName()) == (tr("Close"), tr("Queue"))
    assert (closes.toolTip(), counts.toolTip()) == (tr("Close (Esc)"), tr("Close"))
    assert title.text() != "Queue"
    languages.use("en")
    assert (title.text(), closes.toolTip()) == ("Queue", "Close (Esc)")
    closes.click()
    assert pressed == ["x"]


def test_only_what_has_colours_is_shown_again_in_another_theme_in_the_order_of_binding(qtbot):
    shown, late, early = [], QWidget(), QWidget()
    for widget in (late, early):
        qtbot.addWidget(widget)
    bind(early, lambda: shown.append("text"))
    bind(late, lambda: shown.append("icon"), theme=True)
    bind(early, lambda: shown.append("last"), theme=True)
    assert shown == ["text", "icon", "last"]
    show_theme()
    show_language()
    assert shown[3:] == ["icon", "last", "text", "icon", "last"]


def test_what_is_deleted_meanwhile_is_not_shown(qtbot):
    shown, area = [], QScrollArea()
    qtbot.addWidget(area)

    def renew() -> None:
        area.setWidget(QWidget())  # deletes the one before
        bind(area.widget(), partial(shown.append, len(shown)))

    bind(area, renew)
    show_language()
    show_language()
    assert shown == [0, 1, 2]


def test_layouts_are_those_that_qt_makes(qtbot):
    whole, first, second, third = (QWidget() for _ in range(4))
    qtbot.addWidget(whole)
    within = row((second, 2, TOP), 5, third, spacing=3, align=Qt.AlignmentFlag.AlignBottom)
    made = column(first, STRETCH, (within, 1), Stretch(4), margins=(1, 2), on=whole)
    assert made is whole.layout()
    assert made.contentsMargins().left() == made.contentsMargins().right() == 1
    assert made.contentsMargins().top() == made.contentsMargins().bottom() == 2
    assert [made.stretch(at) for at in range(4)] == [0, 0, 1, 4]
    assert within.spacing() == 3
    assert [within.stretch(at) for at in range(3)] == [2, 0, 0]
    alignments = [within.itemAt(at).alignment() for at in (0, 2)]
    assert alignments == [TOP, Qt.AlignmentFlag.AlignBottom]
    assert within.itemAt(1).sizeHint().width() == 5
    assert {one.parentWidget() for one in (first, second, third)} == {whole}


def test_a_grid_has_its_rows_and_wide_columns(qtbot):
    whole, *cells = (QWidget() for _ in range(4))
    qtbot.addWidget(whole)
    made = grid([cells[:2], cells[2:]], spacing=(7, 2), margins=1, wide=[1], on=whole)
    assert (made.horizontalSpacing(), made.verticalSpacing()) == (7, 2)
    assert [made.columnStretch(at) for at in range(2)] == [0, 1]
    assert made.itemAtPosition(1, 0).widget() is cells[2]
    assert made.itemAtPosition(1, 1) is None
