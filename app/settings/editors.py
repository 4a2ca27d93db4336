"""One editor per type of setting, made from what the schema says about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_type_hints

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QDoubleSpinBox,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QSpinBox,
    QToolButton,
    QWidget,
)

from app.i18n import tr
from app.settings.names import choice_of, name_of, unit_of
from app.theme.icons import icon
from app.widgets.controls import ChoiceBox, Switch
from engine.errors import SettingsError
from engine.settings import schema
from engine.units import parse_clock

_LOWEST_IS_AUTOMATIC = (
    "tile",
    "bit_depth",
    "height",
    "width",
    "threads",
    "clip_frames",
    "blocks_on_device",
    "encode_tile",
    "decode_tile",
    "latent_rate",
)


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
        self._notes: dict[str, str] = {}
        super().__init__(name, self._box, parent)
        for value in about.choices:
            self._box.addItem(choice_of(value, name), value)
        self._box.activated.connect(lambda _: self.changed.emit(name, self._box.currentData()))

    def set_value(self, value: Any) -> None:
        """Show a value without saying that it changed."""
        self._box.setCurrentIndex(self._box.findData(value))

    def retranslate_ui(self) -> None:
        """Names of the choices too."""
        super().retranslate_ui()
        self._say_all()

    def say_automatic(self, value: str) -> None:
        """What "automatic" has come to mean for the shown job; "" while nobody knows."""
        self._meant = value
        at = self._box.findData("auto")
        if at >= 0:
            self._box.setItemText(at, self._text("auto"))

    def say_notes(self, notes: dict[str, str]) -> None:
        """A few words behind some of the choices."""
        if notes != self._notes:
            self._notes = notes
            self._say_all()

    def _say_all(self) -> None:
        for at in range(self._box.count()):
            self._box.setItemText(at, self._text(self._box.itemData(at)))

    def _text(self, value: str) -> str:
        if value == "auto" and self._meant:
            return tr("Auto · {choice}", choice=choice_of(self._meant, self.name))
        note = self._notes.get(value)
        text = choice_of(value, self.name)
        return f"{text} · {note}" if note else text


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
    def textFromValue(self, value: float) -> str:
        return f"{value:.3f}".rstrip("0").rstrip(".")  # 24 as well as 23.976

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


class NumberEditor(Editor):
    """A number with unit and limits; arrow keys step."""

    def __init__(
        self, name: str, about: schema.Setting, kind: type, parent: QWidget | None = None
    ) -> None:
        self._unit = about.unit
        self._field: QSpinBox | QDoubleSpinBox
        low, high = about.low or 0, about.high if about.high is not None else 1_000_000
        if kind is float:
            self._field = _NumberField()
            self._field.setDecimals(3)
            self._field.setRange(float(low), float(high))
        else:
            self._field = _IntegerField()
            self._field.setRange(int(low), int(high))
        super().__init__(name, self._field, parent)
        self._field.setButtonSymbols(QAbstractSpinBox.ButtonSymbols.NoButtons)
        self._field.setAlignment(Qt.AlignmentFlag.AlignRight)
        self._field.setKeyboardTracking(False)
        self._field.setCorrectionMode(QAbstractSpinBox.CorrectionMode.CorrectToNearestValue)
        self._field.valueChanged.connect(lambda value: self.changed.emit(name, value))

    def set_value(self, value: Any) -> None:
        """Show a value without saying that it changed."""
        self._field.blockSignals(True)
        self._field.setValue(value)
        self._field.blockSignals(False)

    def retranslate_ui(self) -> None:
        """The unit, and a word where the lowest value leaves the choice to the planner."""
        super().retranslate_ui()
        if self._unit:
            self._field.setSuffix(f" {unit_of(self._unit)}")
        if self.name in _LOWEST_IS_AUTOMATIC:
            self._field.setSpecialValueText(tr("Automatic"))


class TimeEditor(Editor):
    """A moment in the film, or nothing; a text that is no time is marked and not sent."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        self._field = QLineEdit()
        super().__init__(name, self._field, parent)
        self._field.setAlignment(Qt.AlignmentFlag.AlignRight)
        self._field.editingFinished.connect(self._finish)
        self._field.textEdited.connect(lambda _: mark_wrong(self._field, ""))
        self._value = ""

    def set_value(self, value: Any) -> None:
        """Show a value without saying that it changed."""
        self._value = str(value)
        if not self._field.hasFocus():
            self._field.setText(self._value)
            mark_wrong(self._field, "")

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
            mark_wrong(self._field, tr("Write seconds (12.5) or h:mm:ss.s (0:01:02.5)."))
            self._field.setAccessibleDescription(err.message)
            return
        if text != self._value:
            self._value = text
            self.changed.emit(self.name, text)


class PathEditor(Editor):
    """A file of the user's, or nothing; one that is not there is marked and not sent."""

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
        """Show a value without saying that it changed."""
        self._value = str(value)
        if not self._field.hasFocus():
            self._field.setText(self._value)
            mark_wrong(self._field, "")

    def retranslate_ui(self) -> None:
        """The empty field says what it means."""
        super().retranslate_ui()
        self._field.setPlaceholderText(tr("Published"))
        self._browse.setIcon(icon("folder", size=16))
        self._browse.setToolTip(tr("Choose a file"))
        self._browse.setAccessibleName(f"{tr('Choose a file')}: {name_of(self.name)}")

    def _ask(self) -> None:
        folder = str(Path(self._value).parent) if self._value else ""
        chosen, _ = QFileDialog.getOpenFileName(self, name_of(self.name), folder)
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
    """Show that a text cannot be taken: red border and the rule as a tool tip; "" takes it back."""
    field.setProperty("wrong", bool(problem))
    field.setToolTip(problem)
    field.style().polish(field)


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
    return TimeEditor(name, parent) if about.unit == "s" else PathEditor(name, parent)
