"""Results of the speed test in two columns, and the machine they are from."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.engine_messages import text
from app.i18n import tr
from app.widgets.controls import ElidedLabel
from engine.protocol.report import MeasuredRate

_NOTHING = "none"
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

    def show_figures(self, figures: tuple[MeasuredRate, ...]) -> None:
        """Show the figures of another report, in the current language."""
        self.setVisible(bool(figures))
        texts = tuple((text(figure.title), text(figure.value)) for figure in figures)
        if texts != self._shown:
            self._shown = texts
            self._scroll.setWidget(_body(texts))


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


def machine_of(machine: Mapping[str, str]) -> str:
    """The machine of a report in one line; absent parts are left out."""
    parts = [machine.get("processor", "")]
    if "threads" in machine:
        parts.append(tr("{count} threads", count=machine["threads"]))
    parts += [machine.get(name, "") for name in ("memory", "card")]
    if machine.get("driver", _NOTHING) != _NOTHING:
        parts.append(tr("Driver {version}", version=machine["driver"]))
    if "torch" in machine:
        parts.append(f"torch {machine['torch'].removeprefix('torch ')}")
    return " · ".join(part for part in parts if part not in ("", _NOTHING))
