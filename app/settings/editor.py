"""Base class of the editors of settings."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.engine_messages import setting_text, setting_title


class Editor(QWidget):
    """Edits one setting; `changed` is emitted when the user has chosen another valid value."""

    changed = Signal(str, object)  # name, value

    def __init__(self, name: str, control: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.name = name
        self.control = control
        control.setObjectName(f"setting-{name}")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(control, 1)
        self.setFocusProxy(control)

    def set_value(self, value: Any) -> None:
        """Show a value without emitting `changed`."""
        raise NotImplementedError  # each kind of editor does; a QWidget cannot be an ABC

    def retranslate_ui(self) -> None:
        """Names and explanations in the current language."""
        explanation = setting_text(self.name)
        self.control.setAccessibleName(setting_title(self.name))
        self.control.setAccessibleDescription(explanation)
        self.setToolTip(explanation)
