"""What a screen reader says about a window, and what an eye can tell from its ground."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QAccessible, QAccessibleInterface, QColor, QImage, QPainter
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QComboBox,
    QLabel,
    QLineEdit,
    QSlider,
    QWidget,
)

from app.theme import tokens
from app.widgets.tab_stop import TabStop

_SHARP = 2  # times: so large that strokes of letters have the colour of their pen
_ACTS = {
    QAccessible.Role.Button,
    QAccessible.Role.CheckBox,
    QAccessible.Role.RadioButton,
    QAccessible.Role.ButtonMenu,
    QAccessible.Role.ButtonDropDown,
    QAccessible.Role.ComboBox,
    QAccessible.Role.EditableText,
    QAccessible.Role.Slider,
    QAccessible.Role.SpinBox,
}


def parts(window: QWidget) -> Iterator[QAccessibleInterface]:
    """All that is visible in the accessible tree of a window, itself included."""
    waiting = [QAccessible.queryAccessibleInterface(window)]
    while waiting:
        part = waiting.pop()
        if part is None or not part.isValid() or part.state().invisible:
            continue
        yield part
        children = [part.child(at) for at in range(part.childCount())]
        waiting += [one for one in children if one is not None and one.window() == part.window()]


def name_of(part: QAccessibleInterface) -> str:
    """What a screen reader calls it; Qt says for a list that drops down which value it has."""
    if isinstance(part.object(), QComboBox):
        return part.object().accessibleName()
    return part.text(QAccessible.Text.Name).strip()


def _described(part: QAccessibleInterface) -> str:
    """For messages: class, object name, role and name."""
    widget = part.object()
    kind = type(widget).__name__ if widget is not None else "-"
    named = widget.objectName() if widget is not None else ""
    return f"{kind} {named} {part.role().name} {name_of(part)!r}"


def unnamed(window: QWidget) -> list[str]:
    """Controls that take the keyboard and have no name or no role; frames say what they show."""
    return [
        _described(part)
        for part in parts(window)
        if part.object() is not None
        and (part.role() in _ACTS or (part.state().focusable and _takes_tab(part)))
        and (not name_of(part) or part.role() is QAccessible.Role.NoRole)
    ]


def stateless(window: QWidget) -> list[str]:
    """Controls without a state for screen readers: usable, checked, chosen, value, focus."""
    return [_described(part) for part in parts(window) if _is_stateless(part)]


def _is_stateless(part: QAccessibleInterface) -> bool:
    widget, state = part.object(), part.state()
    if part.role() not in _ACTS or not isinstance(widget, QWidget):
        return False
    if bool(state.disabled) == widget.isEnabled():
        return True
    if isinstance(widget, QAbstractButton) and widget.isCheckable():
        return not state.checkable or bool(state.checked) != widget.isChecked()
    if isinstance(widget, QSlider):
        value = part.valueInterface()
        return value is None or value.currentValue() != widget.value()
    if isinstance(widget, QComboBox):
        return bool(widget.currentText()) and not part.text(QAccessible.Text.Value)
    if isinstance(widget, QLineEdit):
        return bool(widget.text()) and part.text(QAccessible.Text.Value) != widget.text()
    return False


def _takes_tab(part: QAccessibleInterface) -> bool:
    widget = part.object()
    return isinstance(widget, QWidget) and widget.focusPolicy().value & 1 == 1


def alike(window: QWidget) -> list[str]:
    """Names of controls that are equal and do not do the same."""
    by_name: dict[tuple[object, str], set[object]] = {}
    for part in parts(window):
        widget = part.object()
        if part.role() in _ACTS and isinstance(widget, QWidget) and widget.isEnabled():
            action = widget.defaultAction() if hasattr(widget, "defaultAction") else None
            by_name.setdefault((part.role(), name_of(part)), set()).add(action or widget)
    return [f"{name!r}: {found}" for (_, name), found in by_name.items() if len(found) > 1]


def unreachable(window: QWidget) -> list[str]:
    """Controls that neither Tab, arrow keys within its stop nor a shortcut reaches."""
    reached, at = set(), window.nextInFocusChain()
    while at not in reached:
        reached.add(at)
        at = at.nextInFocusChain()
    found, stops = [], window.findChildren(TabStop)
    for part in parts(window):
        widget = part.object()
        if part.role() not in _ACTS or not isinstance(widget, QWidget) or not widget.isEnabled():
            continue
        keys = [action.shortcut() for action in widget.actions()]
        group = widget.group() if isinstance(widget, QAbstractButton) else None
        others = [*(group.buttons() if group is not None else ())]
        others += [one for stop in stops if widget in stop.controls for one in stop.controls]
        is_by_arrow = any(one in reached and one.focusPolicy().value & 1 for one in others)
        is_inside = isinstance(widget.parent(), QComboBox | QAbstractSpinBox)
        if is_inside or is_by_arrow or any(keys):
            continue
        if not (_takes_tab(part) and widget in reached):
            found.append(_described(part))
    return found


def unreadable(window: QWidget, least: float = 4.5) -> list[str]:
    """Visible texts whose contrast with their ground is too low, as they are painted."""
    image = QImage(window.size() * _SHARP, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(_SHARP)
    image.fill(QColor(tokens.current().background))
    painter = QPainter(image)
    window.render(painter, QPoint())
    painter.end()
    bad = []
    for widget in window.findChildren(QWidget):
        if widget.window() is not window or not _shows_text(widget):
            continue
        seen = widget.visibleRegion().boundingRect()
        place = QRect(widget.mapTo(window, seen.topLeft()), seen.size()).adjusted(4, 3, -4, -3)
        contrast = _contrast(image, place)
        if contrast is not None and contrast < least:
            bad.append(
                f"{widget.objectName() or type(widget).__name__} {_text(widget)!r} {contrast:.2f}"
            )
    return bad


def _text(widget: QWidget) -> str:
    shown = widget.currentText() if isinstance(widget, QComboBox) else widget.text()
    return str(shown).strip()


def _shows_text(widget: QWidget) -> bool:
    if not isinstance(widget, QLabel | QAbstractButton | QLineEdit | QComboBox):
        return False
    is_whole = widget.visibleRegion().boundingRect() == widget.rect()  # nothing is scrolled away
    return widget.isVisible() and bool(_text(widget)) and is_whole


def _contrast(image: QImage, place: QRect) -> float | None:
    """Of the ground (the most frequent colour) and what stands out most; None of an empty place."""
    if place.isEmpty():
        return None
    corner, size = place.topLeft() * _SHARP, place.size() * _SHARP
    seen = image.copy(QRect(corner, size))  # lines of it are a multiple of 4 bytes
    colours, counts = np.unique(np.frombuffer(seen.constBits(), np.uint32), return_counts=True)
    if len(colours) < 2:
        return None
    ground = int(colours[counts.argmax()])
    return max(_contrast_of(colour, ground) for colour in colours.tolist())


@cache  # thousands of pixels have colours of a few hundred
def _contrast_of(colour: int, ground: int) -> float:
    return tokens.contrast(*(f"#{one & 0xFFFFFF:06X}" for one in (colour, ground)))
