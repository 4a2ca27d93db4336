"""What all editors of settings have in common."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.i18n import tr
from app.settings.names import name_of
from engine.settings import schema


class Editor(QWidget):
    """Edits one setting; `changed` comes when the user has chosen another valid value."""

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
        """Show a value without saying that it changed."""
        raise NotImplementedError  # each kind of editor does; a QWidget cannot be an ABC

    def retranslate_ui(self) -> None:
        """Names and explanations in the current language."""
        explanation = tr(about(self.name).description)
        self.control.setAccessibleName(name_of(self.name))
        self.control.setAccessibleDescription(explanation)
        self.setToolTip(explanation)


def about(name: str) -> schema.Setting:
    """What the schema says about a setting, of a job or of the program."""
    of_jobs = schema.describe(schema.JobSettings)
    return of_jobs[name] if name in of_jobs else schema.describe(schema.EngineSettings)[name]
