"""Results of the speed test: names and figures in two columns."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.bench.bench_labels import name_of, value_of
from app.widgets.controls import ElidedLabel

_LOW = 132  # px, next to a table
_IN_A_LINE = 2


class FiguresCard(QFrame):
    """Hidden while there are none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("benchFigures")
        self.setProperty("kind", "card")
        self._shown: tuple[tuple[str, str], ...] = ()
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 8, 10)
        column.addWidget(self._scroll)

    def set_low(self, is_low: bool) -> None:
        """Use little height."""
        self.setMaximumHeight(_LOW if is_low else 16_777_215)

    def show_figures(self, figures: tuple[tuple[str, str], ...]) -> None:
        """Show figures of the engine."""
        self.setVisible(bool(figures))
        words = tuple((name_of(name), value_of(value)) for name, value in figures)
        if words != self._shown:
            self._shown = words
            self._scroll.setWidget(_body(words))


def _body(figures: tuple[tuple[str, str], ...]) -> QWidget:
    body = QWidget()
    body.setObjectName("scrolled")
    grid = QGridLayout(body)
    grid.setContentsMargins(0, 0, 12, 0)
    grid.setHorizontalSpacing(12)
    grid.setVerticalSpacing(6)
    lines = -(-len(figures) // _IN_A_LINE)
    for at, (name, value) in enumerate(figures):
        side, line = divmod(at, lines)
        caption, figure = ElidedLabel(), QLabel(value)
        caption.setText(name)
        caption.setProperty("kind", "secondary")
        figure.setProperty("kind", "strong")
        figure.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        grid.addWidget(caption, line, 3 * side)
        grid.addWidget(figure, line, 3 * side + 1)
    for side in range(_IN_A_LINE):
        grid.setColumnStretch(3 * side, 1)
    grid.setColumnMinimumWidth(2, 28)  # between the two halves
    grid.setRowStretch(lines, 1)
    return body
