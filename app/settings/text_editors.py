"""Editors of settings that are typed: a time, a file, names of optimisations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QLineEdit, QToolButton, QWidget

from app import engine_messages
from app.engine_messages import setting_title
from app.i18n import tr
from app.settings.editor import Editor
from app.theme.icons import icon
from engine.core.errors import SettingsError
from engine.core.units import parse_clock


class TextEditor(Editor):
    """A line of text; the engine checks it."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        self._field = QLineEdit()
        super().__init__(name, self._field, parent)
        self._field.editingFinished.connect(self._finish)
        self._value = ""

    def set_value(self, value: Any) -> None:
        """Show a value without emitting `changed`."""
        self._value = str(value)
        if not self._field.hasFocus():
            self._field.setText(self._value)

    def retranslate_ui(self) -> None:
        """The empty field shows what it means."""
        super().retranslate_ui()
        self._field.setPlaceholderText(tr("Automatic"))

    def _finish(self) -> None:
        text = self._field.text().strip()
        if text != self._value:
            self._value = text
            self.changed.emit(self.name, text)


class TimeEditor(Editor):
    """A time in the film, or nothing; a text that is not a time is marked and not sent."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        self._field = QLineEdit()
        super().__init__(name, self._field, parent)
        self._field.setAlignment(Qt.AlignmentFlag.AlignRight)
        self._field.editingFinished.connect(self._finish)
        self._field.textEdited.connect(lambda _: mark_wrong(self._field, ""))
        self._value = ""

    def set_value(self, value: Any) -> None:
        """Show a value without emitting `changed`."""
        self._value = str(value)
        if not self._field.hasFocus():
            self._field.setText(self._value)
            mark_wrong(self._field, "")

    def retranslate_ui(self) -> None:
        """The empty field shows what it means."""
        super().retranslate_ui()
        self._field.setPlaceholderText(
            tr("First frame") if self.name == "start" else tr("Last frame")
        )

    def _finish(self) -> None:
        text = self._field.text().strip()
        try:
            if text:
                parse_clock(text)
        except SettingsError as err:
            mark_wrong(self._field, engine_messages.hint(err.info()))
            self._field.setAccessibleDescription(engine_messages.text(err.info()))
            return
        if text != self._value:
            self._value = text
            self.changed.emit(self.name, text)


class PathEditor(Editor):
    """A file of the user's, or nothing; a missing one is marked and not sent."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        self._field = QLineEdit()
        super().__init__(name, self._field, parent)
        self._browse = QToolButton()
        self._browse.setObjectName(f"browse-{name}")
        self.layout().setSpacing(4)
        self.layout().addWidget(self._browse)
        self._field.editingFinished.connect(lambda: self._finish(self._field.text().strip()))
        self._browse.clicked.connect(self._ask)
        self._value = ""

    def set_value(self, value: Any) -> None:
        """Show a value without emitting `changed`."""
        self._value = str(value)
        if not self._field.hasFocus():
            self._field.setText(self._value)
            mark_wrong(self._field, "")

    def retranslate_ui(self) -> None:
        """The empty field shows what it means."""
        super().retranslate_ui()
        self._field.setPlaceholderText(tr("Published"))
        self._browse.setIcon(icon("folder", size=16))
        self._browse.setToolTip(tr("Choose a file"))
        self._browse.setAccessibleName(f"{tr('Choose a file')}: {setting_title(self.name)}")

    def _ask(self) -> None:
        folder = str(Path(self._value).parent) if self._value else ""
        chosen, _ = QFileDialog.getOpenFileName(self, setting_title(self.name), folder)
        if chosen:
            self._field.setText(chosen)
            self._finish(chosen)

    def _finish(self, text: str) -> None:
        is_wrong = bool(text) and not Path(text).is_file()
        mark_wrong(self._field, tr("There is no such file.") if is_wrong else "")
        if not is_wrong and text != self._value:
            self._value = text
            self.changed.emit(self.name, text)


def mark_wrong(field: QLineEdit, problem: str) -> None:
    """Mark a text that cannot be used: red border, problem as tool tip; "" removes the mark."""
    field.setProperty("wrong", bool(problem))
    field.setToolTip(problem)
    field.style().polish(field)
