"""One editor per type of setting, made from what the schema says about it."""

from __future__ import annotations

from typing import Any, get_type_hints

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QLineEdit,
    QSpinBox,
    QWidget,
)

from app.i18n import tr
from app.settings.names import choice_of, name_of
from app.widgets.controls import ChoiceBox, Switch
from engine.errors import SettingsError
from engine.settings import schema
from engine.units import parse_clock

_ZERO_IS_AUTOMATIC = ("tile", "bit_depth", "height", "width", "threads")


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
        about = schema.describe(schema.JobSettings)[self.name]
        self.control.setAccessibleName(name_of(self.name))
        self.control.setAccessibleDescription(tr(about.description))
        self.setToolTip(tr(about.description))


class ChoiceEditor(Editor):
    """A value out of a few."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        about = schema.describe(schema.JobSettings)[name]
        self._box = ChoiceBox()
        self._meant = ""
        super().__init__(name, self._box, parent)
        for value in about.choices:
            self._box.addItem(choice_of(value), value)
        self._box.activated.connect(lambda _: self.changed.emit(name, self._box.currentData()))

    def set_value(self, value: Any) -> None:
        """Show a value without saying that it changed."""
        self._box.setCurrentIndex(self._box.findData(value))

    def retranslate_ui(self) -> None:
        """Names of the choices too."""
        super().retranslate_ui()
        for at in range(self._box.count()):
            self._box.setItemText(at, self._text(self._box.itemData(at)))

    def say_automatic(self, value: str) -> None:
        """What "automatic" has come to mean for the shown job; "" while nobody knows."""
        self._meant = value
        at = self._box.findData("auto")
        if at >= 0:
            self._box.setItemText(at, self._text("auto"))

    def _text(self, value: str) -> str:
        if value == "auto" and self._meant:
            return tr("Auto · {choice}", choice=choice_of(self._meant))
        return choice_of(value)


class SwitchEditor(Editor):
    """Yes or no."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        self._switch = Switch()
        super().__init__(name, self._switch, parent)
        self._switch.clicked.connect(lambda on: self.changed.emit(name, on))

    def set_value(self, value: Any) -> None:
        """Show a value without saying that it changed."""
        self._switch.setChecked(bool(value))


class _IntegerField(QSpinBox):
    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # the wheel scrolls the page


class _NumberField(QDoubleSpinBox):
    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


class NumberEditor(Editor):
    """A number with unit and limits; arrow keys step."""

    def __init__(
        self, name: str, about: schema.Setting, kind: type, parent: QWidget | None = None
    ) -> None:
        self._field: QSpinBox | QDoubleSpinBox
        low, high = about.low or 0, about.high if about.high is not None else 1_000_000
        if kind is float:
            self._field = _NumberField()
            self._field.setDecimals(1)
            self._field.setRange(float(low), float(high))
        else:
            self._field = _IntegerField()
            self._field.setRange(int(low), int(high))
        super().__init__(name, self._field, parent)
        self._field.setButtonSymbols(QAbstractSpinBox.ButtonSymbols.NoButtons)
        self._field.setAlignment(Qt.AlignmentFlag.AlignRight)
        self._field.setKeyboardTracking(False)
        self._field.setCorrectionMode(QAbstractSpinBox.CorrectionMode.CorrectToNearestValue)
        if about.unit:
            self._field.setSuffix(f" {about.unit}" if about.unit != "x" else " ×")
        self._field.valueChanged.connect(lambda value: self.changed.emit(name, value))

    def set_value(self, value: Any) -> None:
        """Show a value without saying that it changed."""
        self._field.blockSignals(True)
        self._field.setValue(value)
        self._field.blockSignals(False)

    def retranslate_ui(self) -> None:
        """Zero is a word where it leaves the choice to the planner."""
        super().retranslate_ui()
        if self.name in _ZERO_IS_AUTOMATIC:
            self._field.setSpecialValueText(tr("Automatic"))


class TimeEditor(Editor):
    """A moment in the film, or nothing; a text that is no time is marked and not sent."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        self._field = QLineEdit()
        super().__init__(name, self._field, parent)
        self._field.setAlignment(Qt.AlignmentFlag.AlignRight)
        self._field.editingFinished.connect(self._finish)
        self._field.textEdited.connect(lambda _: self._mark(""))
        self._value = ""

    def set_value(self, value: Any) -> None:
        """Show a value without saying that it changed."""
        self._value = str(value)
        if not self._field.hasFocus():
            self._field.setText(self._value)
            self._mark("")

    def retranslate_ui(self) -> None:
        """The empty field says what it means."""
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
            self._mark(tr("Write seconds (12.5) or h:mm:ss.s (0:01:02.5)."))
            self._field.setAccessibleDescription(err.message)
            return
        if text != self._value:
            self._value = text
            self.changed.emit(self.name, text)

    def _mark(self, problem: str) -> None:
        """Show that the text is no time: red border and the rule as a tool tip."""
        self._field.setProperty("wrong", bool(problem))
        self._field.setToolTip(problem)
        self._field.style().polish(self._field)


def make_editor(name: str, parent: QWidget | None = None) -> Editor:
    """The editor that fits the type of a job's setting."""
    about = schema.describe(schema.JobSettings)[name]
    kind = get_type_hints(schema.JobSettings)[name]
    if about.choices:
        return ChoiceEditor(name, parent)
    if kind is bool:
        return SwitchEditor(name, parent)
    if kind in (int, float):
        return NumberEditor(name, about, kind, parent)
    return TimeEditor(name, parent)
