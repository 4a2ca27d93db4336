"""Editors of settings: one for each kind of value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QStandardItemModel, QValidator, QWheelEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QDoubleSpinBox,
    QFileDialog,
    QLineEdit,
    QSpinBox,
    QWidget,
)

from app import desktop
from app.bound import bind
from app.engine_messages import choice_hint, choice_text, setting_text, setting_title
from app.i18n import mark, tr
from app.widgets.controls import ChoiceBox, Switch
from app.widgets.layouts import layout_of, row
from app.widgets.parts import icon_button, label, named
from app.widgets.plain import Label, set_tip
from engine.core.plain_text import one_line
from engine.settings import schema


class Editor(QWidget):
    """Edits one setting; `changed` is emitted when the user has chosen another valid value."""

    changed = Signal(str, object)  # name, value

    def __init__(self, name: str, control: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.name = name
        self.control = named(control, f"setting-{name}")
        row((control, 1), on=self)
        self.setFocusProxy(control)
        bind(self, self._explain)

    def set_value(self, value: Any) -> None:
        """Show a value without emitting `changed`."""
        raise NotImplementedError  # each kind of editor does; a QWidget cannot be an ABC

    def _explain(self) -> None:
        explanation = setting_text(self.name)
        self.control.setAccessibleName(setting_title(self.name))
        self.control.setAccessibleDescription(explanation)
        set_tip(self, explanation)


def title_of(name: str, control: QWidget | None = None, kind: str = "") -> Label:
    """The title of a setting, which belongs to a control."""
    made = label(lambda: setting_title(name), kind)
    if control is not None:
        made.setBuddy(control)
    return made


class LineEditor(Editor):
    """A line of text; one that `_problem` objects to is marked and not sent.

    Args:
        name: Setting.
        empty: Meaning of an empty field, English.

    Attributes:
        reason: Why the text cannot be used; hidden where it can. The owner puts it below the field.
    """

    def __init__(self, name: str, empty: str, parent: QWidget | None = None) -> None:
        self._field, self._empty, self._value, self._why = QLineEdit(), empty, "", ""
        super().__init__(name, self._field, parent)
        self.reason = label(kind="problem", name=f"reason-{name}", wraps=True)
        self.reason.setParent(self)
        self.reason.hide()
        self._field.editingFinished.connect(self._finish)
        bind(self, self._show_empty)

    def set_value(self, value: Any) -> None:
        """Show a value without emitting `changed`."""
        self._value = str(value)
        if not self._field.hasFocus():
            self._field.setText(self._value)
            self.show_reason("")

    def show_reason(self, reason: str, hint: str = "") -> None:
        """Mark a text that cannot be used, and say why and what to write; "" removes the mark."""
        self._field.setProperty("wrong", bool(reason))
        self._why = f"{reason} {hint}".strip()
        set_tip(self._field, self._why)
        self._field.style().polish(self._field)
        self.reason.setText(reason)
        self.reason.setVisible(bool(reason) and not self.isHidden())
        self._describe()

    def _show_empty(self) -> None:
        """The empty field shows what it means."""
        self._field.setPlaceholderText(tr(self._empty))
        if self.reason.text():
            self.show_reason(self._problem(self._field.text().strip()))
        self._describe()

    def _describe(self) -> None:
        """Screen readers say why a text is marked."""
        self.control.setAccessibleDescription(self._why or setting_text(self.name))

    def _problem(self, _text: str) -> str:
        """Why a text cannot be used; "" where it can: the engine checks the rest."""
        return ""

    def _finish(self) -> None:
        text = self._field.text().strip()
        problem = self._problem(text) if text else ""
        self.show_reason(problem)
        if not problem and text != self._value:
            self._value = text
            self.changed.emit(self.name, text)


class TimeEditor(LineEditor):
    """A time in the video, or nothing; the plan says what is wrong with one."""

    def __init__(self, name: str, empty: str, parent: QWidget | None = None) -> None:
        super().__init__(name, empty, parent)
        self._field.setAlignment(Qt.AlignmentFlag.AlignRight)

    def _problem(self, text: str) -> str:
        return self.reason.text() if text == self._value else ""  # the plan's, of this very text


class PathEditor(LineEditor):
    """A file of the user's, or nothing."""

    _asks = mark("Choose file")

    def __init__(
        self, name: str, parent: QWidget | None = None, empty: str = mark("Published file")
    ) -> None:
        super().__init__(name, empty, parent)
        browse = icon_button(
            "folder",
            lambda: f"{tr(self._asks)}: {setting_title(name)}",
            f"browse-{name}",
            size=16,
            tip=self._asks,
            on=self._ask,
        )
        layout_of(self).setSpacing(4)
        layout_of(self).addWidget(browse)

    def _ask(self) -> None:
        folder = str(Path(self._value).parent) if self._value else ""
        chosen, _ = QFileDialog.getOpenFileName(self, setting_title(self.name), folder)
        if chosen:
            self._field.setText(chosen)
            self._finish()

    def _problem(self, text: str) -> str:
        return "" if Path(text).is_file() else tr("File not found.")


class FolderEditor(PathEditor):
    """A folder of the user's, or nothing."""

    _asks = mark("Choose folder")

    def _ask(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, setting_title(self.name), self._value)
        if chosen:
            self._field.setText(chosen)
            self._finish()

    def _problem(self, text: str) -> str:
        return "" if Path(text).is_dir() else tr("Folder not found.")


class CommandEditor(LineEditor):
    """A program of the user's with its arguments, or nothing."""

    def _problem(self, text: str) -> str:
        return "" if desktop.command_words(text) else tr("Program not found.")


_NO_FOLDER = {"output_folder": mark("Next to the source"), "watch_folder": mark("None")}
_UNITS = {"x": "×", "frames": mark("frames"), "fps": mark("fps")}


def value_text(name: str, value: Any) -> str:
    """A value of a setting as it is read: with its unit, or the name of the choice."""
    about = schema.about(name)
    if isinstance(value, bool):
        return tr("Yes") if value else tr("No")
    if about.choices:
        return choice_text(name, value)
    if about.low_is_automatic and value == about.low:
        return tr("Automatic")
    if isinstance(value, str):
        return (Path(value).name or tr("No cleaning")) if about.kind == "path" else value
    unit = tr(_UNITS.get(about.unit, about.unit)) if about.unit else ""
    return f"{value:g} {unit}".rstrip()


class ChoiceEditor(Editor):
    """A value out of a few."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        self._box = ChoiceBox()
        self._meant = ""
        self._notes: dict[str, str] = {}
        self._reasons: Mapping[str, str] = {}
        super().__init__(name, self._box, parent)
        self._titles: Mapping[str, str] = {}
        about = schema.about(name)
        for value in about.choices or about.values:
            self._box.offer(value_text(name, value), value)
        bind(self, self._show_all)
        self._box.activated.connect(lambda _: self.changed.emit(name, self._box.currentData()))

    def set_value(self, value: Any) -> None:
        """Show a value without emitting `changed`."""
        self._box.setCurrentIndex(self._box.findData(value))

    def show_automatic(self, value: str) -> None:
        """Shows the meaning of "automatic" for the shown job; "" while unknown."""
        self._meant = value
        at = self._box.findData("auto")
        if at >= 0:
            self._box.setItemText(at, self._text("auto"))

    @property
    def meant(self) -> str:
        """The chosen value; of "automatic" what it stands for, where that is known."""
        value = str(self._box.currentData())
        return self._meant if value == "auto" and self._meant else value

    @property
    def meaning(self) -> str:
        """Text of that value."""
        return value_text(self.name, self.meant)

    def show_notes(self, notes: dict[str, str]) -> None:
        """A short note after some of the choices."""
        if notes != self._notes:
            self._notes = notes
            self._show_all()

    def show_unavailable(self, reasons: Mapping[str, str]) -> None:
        """Grey out choices that cannot be made here; the reason is the tool tip of each."""
        if reasons != self._reasons:
            self._reasons = reasons
            self._show_all()

    def show_values(self, titles: Mapping[str, str]) -> None:
        """Offer these values, with a text each; "" takes that of the catalogue."""
        if titles == self._titles:
            return
        self._titles, current = titles, self._box.currentData()
        self._box.clear()
        for value in titles:
            self._box.offer(value, value)
        self.set_value(current)
        self._show_all()

    def _show_all(self) -> None:
        items = cast(QStandardItemModel, self._box.model())
        for at in range(self._box.count()):
            value = self._box.itemData(at)
            reason, item = self._reasons.get(value, ""), items.item(at)
            item.setText(one_line(self._text(value)))
            set_tip(item, reason or choice_hint(self.name, str(value)))
            item.setEnabled(not reason)

    def _text(self, value: Any) -> str:
        if value == "auto" and self._meant:
            meant = self._titles.get(self._meant) or choice_text(self.name, self._meant)
            return tr("Auto · {choice}", choice=meant)
        note = self._notes.get(value)
        text = self._titles.get(value) or value_text(self.name, value)
        return f"{text} · {note}" if note else text


class SwitchEditor(Editor):
    """Yes or no."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        self._switch = Switch()
        super().__init__(name, self._switch, parent)
        self._switch.clicked.connect(lambda on: self.changed.emit(name, on))

    def set_value(self, value: Any) -> None:
        """Show a value without emitting `changed`."""
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
    """A share, shown as a percentage: "70 %"."""

    def __init__(self) -> None:
        super().__init__()
        self.setSuffix(" %")
        self.setSingleStep(0.05)

    def textFromValue(self, value: float) -> str:
        return f"{100 * value:.0f}"

    def valueFromText(self, text: str) -> float:
        written = text.removesuffix(self.suffix()).strip()
        return float(written) / 100 if written else self.value()

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        """Accept any number: one that is too small or large becomes the nearest."""
        written = text.removesuffix(self.suffix()).strip()
        is_number = not written or (written.isdecimal() and len(written) <= len("100"))
        state = QValidator.State.Acceptable if is_number else QValidator.State.Invalid
        return state, text, position


class NumberEditor(Editor):
    """A number with unit and limits; arrow keys step."""

    def __init__(
        self, name: str, about: schema.Setting, kind: type, parent: QWidget | None = None
    ) -> None:
        self._unit, self._low_is_automatic = about.unit, about.low_is_automatic
        self._field: QSpinBox | QDoubleSpinBox
        low, high = about.low or 0, about.high if about.high is not None else 1_000_000
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
        bind(self, self._show_unit)

    def set_value(self, value: Any) -> None:
        """Show a value without emitting `changed`."""
        self._field.blockSignals(True)
        self._field.setValue(value)
        self._field.blockSignals(False)

    def _show_unit(self) -> None:
        """Show the unit, and "Automatic" for a lowest value that leaves the choice to the plan."""
        if self._unit:
            self._field.setSuffix(f" {tr(_UNITS.get(self._unit, self._unit))}")
        if self._low_is_automatic:
            self._field.setSpecialValueText(tr("Automatic"))


def make_editor(name: str, parent: QWidget | None = None) -> Editor:
    """The editor that fits the type of a setting of jobs or of the program."""
    about = schema.about(name)
    kind = {**schema.types_of(schema.EngineSettings), **schema.types_of(schema.JobSettings)}[name]
    if about.choices or about.values:
        return ChoiceEditor(name, parent)
    if kind is bool:
        return SwitchEditor(name, parent)
    if kind in (int, float):
        return NumberEditor(name, about, kind, parent)
    if about.kind == "path":
        return PathEditor(name, parent)
    if about.kind == "folder":
        return FolderEditor(name, parent, _NO_FOLDER.get(name, mark("Automatic")))
    if about.kind == "pattern":
        return LineEditor(name, mark("Automatic"), parent)
    if about.kind == "command":
        return CommandEditor(name, mark("None"), parent)
    if about.kind == "time":
        empty = mark("First frame") if name == "start" else mark("Last frame")
        return TimeEditor(name, empty, parent)
    return LineEditor(name, mark("Automatic"), parent)
