"""What takes the focus is brought into view, with what belongs to it."""

from PySide6.QtWidgets import QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.widgets.reveal import bring_into_view
from tests.app.test_narrow_window import settle


def test_a_card_that_is_too_high_is_shown_below_its_heading(qtbot):
    area, body, high = QScrollArea(), QWidget(), QPushButton()
    qtbot.addWidget(area)
    column = QVBoxLayout(body)
    heading = QLabel("Which image looks right?")
    for part in (heading, high, QLabel("Frame rate")):
        column.addWidget(part)
    high.setFixedHeight(250)
    area.setWidgetResizable(True)
    area.setWidget(body)
    area.resize(300, 240)
    area.show()
    bring_into_view(high)
    assert area.verticalScrollBar().value() == 0
    area.verticalScrollBar().setValue(area.verticalScrollBar().maximum())
    heading.setFixedHeight(200)
    settle()
    bring_into_view(high)
    assert area.verticalScrollBar().value() == high.y() - 8
