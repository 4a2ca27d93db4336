"""Layouts of widgets: the layout that a widget certainly has, and removal of all widgets."""

from __future__ import annotations

from PySide6.QtWidgets import QLayout, QWidget


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
