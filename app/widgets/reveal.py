"""Brings into view what opens or takes the focus: sheets open, scroll areas scroll."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtWidgets import QApplication, QScrollArea, QWidget

from app.widgets.sheet import Sheet

_MARGIN = 8  # px between what is shown and the edge of its area


def bring_into_view(widget: QWidget, *, takes_focus: bool = False) -> None:
    """Open the sheet that holds a widget, and scroll to it; of a high one, to its top.

    Args:
        widget: Widget that shall be seen.
        takes_focus: Whether the keyboard goes there, too.
    """
    above = widget.parentWidget()
    while above is not None:
        if isinstance(above, Sheet):
            above.open_up()
        above = above.parentWidget()
    if takes_focus:
        widget.setFocus(Qt.FocusReason.OtherFocusReason)
    above = widget.parentWidget()
    while above is not None:
        if isinstance(above, QScrollArea):
            _scroll_to(widget, above)
        above = above.parentWidget()


def follow_focus(application: QApplication) -> None:
    """Bring whatever takes the focus into view, however it does."""
    application.focusChanged.connect(_focus_changed)


def _focus_changed(_old: QWidget | None, new: QWidget | None) -> None:
    if new is not None:
        bring_into_view(new)


def _scroll_to(widget: QWidget, area: QScrollArea) -> None:
    inside = area.widget()
    if inside is None or not inside.isAncestorOf(widget):
        return
    parts = [inside, widget]
    while (above := parts[-1].parentWidget()) is not None and above is not inside:
        parts.append(above)
    for part in parts:  # what has just been shown has no place yet
        layout = part.layout()
        if layout is not None:
            layout.activate()
    QApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest)
    bar, room = area.verticalScrollBar(), area.viewport().height()
    top, height = widget.mapTo(inside, QPoint(0, 0)).y(), widget.height()
    seen = min(top + height, bar.value() + room) - max(top, bar.value())
    if 2 * height > room and 4 * seen >= 3 * height:
        return  # most of a high one is in sight, and so is what stands above it
    first, last = top - _MARGIN, top + height + _MARGIN
    if first < bar.value() or last - first > room:
        bar.setValue(first)
    elif last > bar.value() + room:
        bar.setValue(last - room)
