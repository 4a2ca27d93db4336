"""What opens or takes the focus is brought into view: sheets open, scroll areas scroll."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtWidgets import QApplication, QScrollArea, QWidget

from app.widgets.sheet import Sheet

_MARGIN = 8  # px between what is shown and the edge of its area


def bring_into_view(widget: QWidget, *, takes_focus: bool = False) -> None:
    """Open the sheet that holds a widget, and scroll to it; of a high one, to its top.

    Args:
        widget: What shall be seen.
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
        if part.layout() is not None:
            part.layout().activate()
    QApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest)
    bar, room = area.verticalScrollBar(), area.viewport().height()
    top = widget.mapTo(inside, QPoint(0, 0)).y() - _MARGIN
    bottom = top + widget.height() + 2 * _MARGIN
    if bottom - top > room:
        if not bar.value() <= top + _MARGIN <= bar.value() + room // 2:
            bar.setValue(top)
    elif top < bar.value():
        bar.setValue(top)
    elif bottom > bar.value() + room:
        bar.setValue(bottom - room)
