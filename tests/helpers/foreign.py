"""Foreign text that would do harm where it is not plain text, and a look for it in a window."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

from PySide6 import QtGui
from PySide6.QtCore import QAbstractListModel, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QComboBox,
    QLabel,
    QPlainTextEdit,
    QWidget,
)

from engine.core.errors import ErrorInfo
from engine.core.messages import Message
from engine.protocol.report import MeasuredSwitch
from engine.settings.presets import Preset

MARK = "<img src='q.png'><!--"
HOSTILE = MARK + "&b\nFORGED\r\x1b[31m\u202e\u2066\u2028"
SHOWN = MARK + r"&b\nFORGED\r\x1b[31m\u202e\u2066\u2028"  # as plain text in one line
_ACTIVE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]|^FORGED", re.MULTILINE
)
_FOREIGN = {
    *("name", "title", "licence", "repository", "filename", "architecture", "language"),
    *("file_name", "address", "film", "lent_to", "devices", "driver", "link", "card", "device"),
    *("host", "date", "text", "source"),
}
_KEYS = {Preset: {"name"}, MeasuredSwitch: {"name"}}  # which ones are


def poisoned(value: Any, name: str = "") -> Any:
    """An event of the engine with something hostile in each text that others may have written."""
    if isinstance(value, Message | ErrorInfo):
        params = {
            key: poisoned(one, "text") for key, one in value.params.items() if key != "offers"
        }
        return dataclasses.replace(value, params={**value.params, **params})
    if isinstance(value, PurePath):
        return value.with_name(HOSTILE + value.name) if value.name else value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [one.name for one in dataclasses.fields(value) if one.init]
        kept = _KEYS.get(type(value), set())
        made = {one: poisoned(getattr(value, one), one) for one in fields if one not in kept}
        return dataclasses.replace(value, **made)
    if isinstance(value, Mapping):
        return {
            key: poisoned(one, "text" if name == "params" else "") for key, one in value.items()
        }
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return type(value)(poisoned(one, name) for one in value)
    is_text = isinstance(value, str) and not isinstance(value, Enum) and name in _FOREIGN
    return f"{HOSTILE}{value}" if is_text and value and not value.isdigit() else value


def harm_in(window: QWidget) -> tuple[list[str], set[str]]:
    """Faults of a window and its tool tips, and names of the widgets that show hostile text."""
    faults, seen = [], set()
    for widget in (window, *window.findChildren(QWidget)):
        place = f"{type(widget).__name__} {widget.objectName()}"
        if isinstance(widget, QLabel) and widget.textFormat() is Qt.TextFormat.AutoText:
            faults.append(f"{place}: takes what looks like HTML for HTML")
        for kind, text in _texts(widget):
            if MARK in text:
                seen.add(place)
            if _ACTIVE.search(text):
                faults.append(f"{place}, {kind}: {text!r}")
            if kind == "tip" and QtGui.Qt.mightBeRichText(text) and "<img" in text:
                faults.append(f"{place}, {kind}: HTML: {text!r}")
            if kind == "caption" and re.search("(?<!&)&b", text):
                faults.append(f"{place}, {kind}: a key: {text!r}")
    return faults, seen


def _texts(widget: QWidget) -> Iterator[tuple[str, str]]:
    yield "tip", widget.toolTip()
    yield "title", widget.windowTitle()
    yield "name", widget.accessibleName()
    yield "description", widget.accessibleDescription()
    for action in widget.actions():
        yield from (("caption", action.text()), ("tip", action.toolTip()))
    match widget:
        case QLabel():
            yield "text", widget.text()
        case QAbstractButton():
            yield "caption", widget.text()
        case QPlainTextEdit():
            yield "text", widget.toPlainText()
        case QComboBox():
            yield from _items(widget.model())
        case QAbstractItemView() if widget.model() is not None:
            yield from _items(widget.model())


def _items(model: Any) -> Iterator[tuple[str, str]]:
    roles = Qt.ItemDataRole
    columns = 1 if isinstance(model, QAbstractListModel) else model.columnCount()
    for row in range(model.rowCount()):
        for column in range(columns):
            for role in (roles.DisplayRole, roles.ToolTipRole, roles.AccessibleTextRole):
                text = model.data(model.index(row, column), role)
                yield "tip" if role == roles.ToolTipRole else "text", str(text or "")
