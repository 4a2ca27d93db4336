"""Controls that are one stop of the Tab key."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit, QPushButton, QSlider, QWidget
from pytestqt.qtbot import QtBot

from app.widgets.controls import SegmentedControl
from app.widgets.layouts import row
from app.widgets.tab_stop import TabStop


@pytest.fixture
def bar(qtbot: QtBot) -> QWidget:
    """Three buttons and a slider, and a field after them."""
    made = QWidget()
    buttons = [QPushButton(str(at)) for at in range(3)]
    slider, after = QSlider(Qt.Orientation.Horizontal), QLineEdit()
    row(*buttons, slider, after, on=made)
    made.parts = (*buttons, slider, after)
    TabStop(made, made.parts[:-1])
    qtbot.addWidget(made)
    made.show()
    made.parts[0].setFocus()
    return made


def press(bar: QWidget, key: Qt.Key) -> QWidget | None:
    QTest.keyClick(bar.focusWidget(), key)
    return bar.focusWidget()


def test_arrow_keys_home_and_end_move_and_tab_leaves(bar):
    first, second, third, slider, after = bar.parts
    assert press(bar, Qt.Key.Key_Right) is second
    assert press(bar, Qt.Key.Key_End) is slider
    assert press(bar, Qt.Key.Key_Up) is slider
    assert slider.value() > 0, "its own key"
    assert press(bar, Qt.Key.Key_Right) is first
    assert press(bar, Qt.Key.Key_Left) is slider
    assert press(bar, Qt.Key.Key_Left) is third
    assert press(bar, Qt.Key.Key_Tab) is after
    assert press(bar, Qt.Key.Key_Backtab) is third  # that was used last


def test_what_cannot_be_used_is_passed_over_and_never_the_stop(bar):
    first, second, third, _slider, after = bar.parts
    second.hide()
    assert press(bar, Qt.Key.Key_Right) is third
    after.setFocus()
    third.setEnabled(False)
    assert press(bar, Qt.Key.Key_Backtab) is first


def test_arrow_keys_choose_among_segments_and_a_press_on_the_chosen_one_keeps_it(qtbot):
    control = SegmentedControl(["a", "b"])
    qtbot.addWidget(control)
    control.set_current("a")
    control.show()
    chosen = []
    control.chosen.connect(chosen.append)
    control.button("a").setFocus()
    QTest.keyClick(control.button("a"), Qt.Key.Key_Right)
    assert (control.current, chosen) == ("b", ["b"])
    control.button("b").click()
    assert (control.current, chosen) == ("b", ["b", "b"])
    control.set_current("")
    assert not control.current
