"""Layouts in one expression, the layout that a widget certainly has, and removal of all widgets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QBoxLayout, QGridLayout, QHBoxLayout, QLayout, QVBoxLayout, QWidget

LEFT, RIGHT = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight
TOP, MIDDLE = Qt.AlignmentFlag.AlignTop, Qt.AlignmentFlag.AlignVCenter
CENTRE = Qt.AlignmentFlag.AlignCenter
_ANYWHERE = Qt.AlignmentFlag(0)
Box = TypeVar("Box", bound=QBoxLayout)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Room between parts of a row or column that grows with it."""

    factor: int = 0


STRETCH = Stretch()

# An int is a space in px; a tuple is a part with its stretch factor and, maybe, its alignment.
Part = (
    QWidget
    | QLayout
    | Stretch
    | int
    | tuple[QWidget | QLayout, int]
    | tuple[QWidget, int, Qt.AlignmentFlag]
)
Margins = int | tuple[int, int] | tuple[int, int, int, int]  # all; sides, ends; as Qt's


def row(
    *parts: Part,
    spacing: int | None = None,
    margins: Margins | None = 0,
    align: Qt.AlignmentFlag = _ANYWHERE,
    on: QWidget | None = None,
) -> QHBoxLayout:
    """Parts from left to right.

    Args:
        parts: Widgets, layouts, `Stretch` and spaces in px.
        spacing: Between two parts, px; None for that of the layout around, else of the style.
        margins: Around all of them, px; None for those of the style.
        align: Alignment of widgets that have none of their own.
        on: Widget that is laid out.
    """
    return _filled(QHBoxLayout(), parts, spacing, margins, align, on)


def column(
    *parts: Part,
    spacing: int | None = None,
    margins: Margins | None = 0,
    align: Qt.AlignmentFlag = _ANYWHERE,
    on: QWidget | None = None,
) -> QVBoxLayout:
    """Parts from top to bottom; arguments as those of `row`."""
    return _filled(QVBoxLayout(), parts, spacing, margins, align, on)


def grid(
    rows: Iterable[Sequence[QWidget]] = (),
    *,
    spacing: int | tuple[int, int] = 0,
    margins: Margins = 0,
    wide: Sequence[int] = (),
    on: QWidget | None = None,
) -> QGridLayout:
    """Widgets in rows and columns.

    Args:
        rows: Widgets of each row, from its left end.
        spacing: Between columns and between rows, px.
        margins: Around all of them, px.
        wide: Columns that share the room which the others leave.
        on: Widget that is laid out.
    """
    layout = QGridLayout()
    across, down = spacing if isinstance(spacing, tuple) else (spacing, spacing)
    layout.setHorizontalSpacing(across)
    layout.setVerticalSpacing(down)
    set_margins(layout, margins)
    for at in wide:
        layout.setColumnStretch(at, 1)
    if on is not None:
        on.setLayout(layout)
    for line, widgets in enumerate(rows):
        for at, widget in enumerate(widgets):
            layout.addWidget(widget, line, at)
    return layout


def add_parts(box: QBoxLayout, parts: Iterable[Part], align: Qt.AlignmentFlag = _ANYWHERE) -> None:
    """Put more parts at the end of a row or column."""
    for part in parts:
        match part:
            case QWidget():
                box.addWidget(part, 0, align)
            case QLayout():
                box.addLayout(part)
            case Stretch():
                box.addStretch(part.factor)
            case int():
                box.addSpacing(part)
            case (QWidget() as widget, stretch):
                box.addWidget(widget, stretch, align)
            case (QWidget() as widget, stretch, place):
                box.addWidget(widget, stretch, place)
            case (QLayout() as layout, stretch):
                box.addLayout(layout, stretch)


def set_margins(layout: QLayout, margins: Margins) -> None:
    """Leave room around the parts of a layout, px."""
    match margins:
        case int():
            layout.setContentsMargins(margins, margins, margins, margins)
        case (sides, ends):
            layout.setContentsMargins(sides, ends, sides, ends)
        case (left, top, right, bottom):
            layout.setContentsMargins(left, top, right, bottom)


def layout_of(widget: QWidget) -> QLayout:
    """The layout of a widget that was given one when it was made."""
    layout = widget.layout()
    assert layout is not None
    return layout


def clear_layout(layout: QLayout) -> None:
    """Hide and delete all widgets of a layout."""
    while (item := layout.takeAt(0)) is not None:
        widget = item.widget()
        if widget is not None:
            widget.hide()
            widget.deleteLater()


def _filled(
    box: Box,
    parts: Iterable[Part],
    spacing: int | None,
    margins: Margins | None,
    align: Qt.AlignmentFlag,
    on: QWidget | None,
) -> Box:
    if spacing is not None:
        box.setSpacing(spacing)
    if margins is not None:
        set_margins(box, margins)
    if on is not None:
        on.setLayout(box)
    add_parts(box, parts, align)
    return box
