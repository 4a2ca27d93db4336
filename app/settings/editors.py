"""One editor per type of setting, made from what the schema says about it."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QValidator, QWheelEvent
from PySide6.QtWidgets import QAbstractSpinBox, QDoubleSpinBox, QSpinBox, QWidget

from app.i18n import tr
from app.settings.editor import Editor, about
from app.settings.names import choice_of, unit_of
from app.settings.text_editors import PathEditor, TextEditor, TimeEditor
from app.widgets.controls import ChoiceBox, Switch
from engine.settings import schema

__all__ = ["ChoiceEditor", "Editor", "NumberEditor", "SwitchEditor", "make_editor"]

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
_NAMES_OF_SWITCHES = ("switches",)


class ChoiceEditor(Editor):
    """A value out of a few."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        self._box = ChoiceBox()
        self._meant = ""
        self._notes: dict[str, str] = {}
        super().__init__(name, self._box, parent)
        for value in about(name).choices:
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


class _ShareField(_NumberField):
    """A part of a whole, as people write it: "70 %"."""

    def __init__(self) -> None:
        super().__init__()
        self.setSuffix(" %")
        self.setSingleStep(0.05)

    def textFromValue(self, value: float) -> str:
        return f"{100 * value:.0f}"

    def valueFromText(self, text: str) -> float:
        written = text.removesuffix(self.suffix()).strip()
        return float(written) / 100 if written else self.value()

    def validate(self, text: str, position: int) -> object:
        """Any number will do: one that is too small or large becomes the nearest."""
        written = text.removesuffix(self.suffix()).strip()
        is_number = not written or (written.isdecimal() and len(written) <= len("100"))
        state = QValidator.State.Acceptable if is_number else QValidator.State.Invalid
        return state, text, position


class NumberEditor(Editor):
    """A number with unit and limits; arrow keys step."""

    def __init__(
        self, name: str, told: schema.Setting, kind: type, parent: QWidget | None = None
    ) -> None:
        self._unit = told.unit
        self._field: QSpinBox | QDoubleSpinBox
        low, high = told.low or 0, told.high if told.high is not None else 1_000_000
        if kind is float:
            self._field = _ShareField() if high <= 1 else _NumberField()
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


def make_editor(name: str, parent: QWidget | None = None) -> Editor:
    """The editor that fits the type of a setting of jobs or of the program."""
    told = about(name)
    kind = (schema.types_of(schema.EngineSettings) | schema.types_of(schema.JobSettings))[name]
    if told.choices:
        return ChoiceEditor(name, parent)
    if kind is bool:
        return SwitchEditor(name, parent)
    if kind in (int, float):
        return NumberEditor(name, told, kind, parent)
    if name in _NAMES_OF_SWITCHES:
        return TextEditor(name, parent)
    return TimeEditor(name, parent) if told.unit == "s" else PathEditor(name, parent)
