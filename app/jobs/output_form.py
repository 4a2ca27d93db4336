"""Choices about the result: its size and its format."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QVBoxLayout,
    QWidget,
)

from app.engine_messages import setting_text, setting_title
from app.i18n import tr
from app.settings.editors import ChoiceEditor, Editor, make_editor
from app.widgets.controls import SegmentedControl, Themed, Translated, WheellessSlider
from app.widgets.plain import Label, set_tip
from app.widgets.reveal import bring_into_view
from engine.protocol.plan import Plan
from engine.settings import schema
from engine.settings.schema import JobSettings, with_values

_SIZE_FIELDS = ("scale", "height", "width")
_PRESETS = {
    "x2": {"scale": 2, "height": 0, "width": 0},
    "x4": {"scale": 4, "height": 0, "width": 0},
    "1080p": {"scale": 2, "height": 1080, "width": 0},
    "4K": {"scale": 4, "height": 2160, "width": 0},
}
_OTHER = "other"


def preset_of(settings: JobSettings) -> str:
    """The name of the preset that gives the same size, or "other"."""
    for name, values in _PRESETS.items():
        if all(getattr(settings, field) == value for field, value in values.items()):
            return name
    return _OTHER


class TargetForm(Translated, QWidget):
    """A row of presets; the last one opens fields for factor, height and width."""

    changed = Signal(dict)  # name -> value

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = JobSettings()
        self._row = SegmentedControl([*_PRESETS, _OTHER])
        self._row.setObjectName("target")
        self._fields = QWidget()
        self._editors: dict[str, Editor] = {}
        self._labels: dict[str, Label] = {}
        grid = QGridLayout(self._fields)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(4)
        for at, name in enumerate(_SIZE_FIELDS):
            self._editors[name] = make_editor(name)
            self._editors[name].changed.connect(self._edit)
            self._labels[name] = Label()
            self._labels[name].setProperty("kind", "secondary")
            grid.addWidget(self._labels[name], 0, at)
            grid.addWidget(self._editors[name], 1, at)
            grid.setColumnStretch(at, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self._row)
        column.addWidget(self._fields)
        self._fields.setVisible(False)
        self._row.chosen.connect(self._choose)
        self.retranslate_ui()

    @property
    def first_control(self) -> QWidget:
        """The size that is chosen, else the first one."""
        return self._row.button(self._row.current or _OTHER)

    def show_settings(self, settings: JobSettings) -> None:
        """Show the target of a job."""
        self._settings = settings
        preset = preset_of(settings)
        if self._row.current != _OTHER or preset == _OTHER:
            self._row.set_current(preset)
        self._fields.setVisible(self._row.current == _OTHER)
        for name, editor in self._editors.items():
            editor.set_value(getattr(settings, name))

    def show_preset(self, settings: JobSettings) -> None:
        """Show the target of another job: an open "Custom" closes where a preset gives the same."""
        self._row.set_current(preset_of(settings))
        self.show_settings(settings)

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self._row.set_labels({"x2": "×2", "x4": "×4", _OTHER: tr("Custom")})
        self._row.set_tips(
            {
                "x2": tr("Twice as wide and high"),
                "x4": tr("Four times as wide and high"),
                "1080p": tr("1080 pixels high, width to match"),
                "4K": tr("2160 pixels high, width to match"),
                _OTHER: tr("Custom size"),
            }
        )
        self._row.setAccessibleName(tr("Output"))
        for name, label in self._labels.items():
            label.setText(setting_title(name))
            self._editors[name].retranslate_ui()

    def _choose(self, preset: str) -> None:
        self._fields.setVisible(preset == _OTHER)
        if preset == _OTHER:
            bring_into_view(self)
        else:
            self._apply(_PRESETS[preset])

    def _edit(self, name: str, value: object) -> None:
        self._apply({name: value})

    def _apply(self, values: Mapping[str, object]) -> None:
        self._settings = with_values(self._settings, values)
        self.changed.emit(values)


class FormatForm(Themed, QWidget):
    """Edits the format of the file that comes out."""

    changed = Signal(dict)  # name -> value

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._editors = {name: ChoiceEditor(name) for name in ("container", "codec")}
        self._labels = {name: Label() for name in self._editors}
        self._quality_label = Label()
        self._quality_text = Label()
        self._quality = WheellessSlider(Qt.Orientation.Horizontal)
        self._quality.setObjectName("setting-crf")
        about = schema.about("crf")
        self._worst = int(about.high or 51)
        self._quality.setRange(0, self._worst)  # to the right is better: worst - crf
        self._lay_out()
        for editor in self._editors.values():
            editor.changed.connect(lambda name, value: self.changed.emit({name: value}))
        self._quality.valueChanged.connect(self._show_quality)
        self._quality.valueChanged.connect(
            lambda value: self.changed.emit({"crf": self._worst - value})
        )
        self.retranslate_ui()

    def show_settings(self, settings: schema.JobSettings) -> None:
        """Show the values of a job."""
        for name, editor in self._editors.items():
            editor.set_value(getattr(settings, name))
        self._quality.blockSignals(True)
        self._quality.setValue(self._worst - settings.crf)
        self._quality.blockSignals(False)
        self._show_quality()

    def show_plan(self, plan: Plan | None) -> None:
        """What "automatic" means in a plan; None while there is none."""
        self._editors["container"].show_automatic(plan.container if plan is not None else "")
        self._editors["codec"].show_automatic(plan.picture.codec if plan is not None else "")

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        for name, label in self._labels.items():
            label.setText(setting_title(name))
        self._quality_label.setText(setting_title("crf"))
        self._quality.setAccessibleName(setting_title("crf"))
        set_tip(self._quality, setting_text("crf"))
        for editor in self._editors.values():
            editor.retranslate_ui()
        self._show_quality()

    def _lay_out(self) -> None:
        kinds = QGridLayout()
        kinds.setHorizontalSpacing(8)
        kinds.setVerticalSpacing(6)
        for at, (name, editor) in enumerate(self._editors.items()):
            self._labels[name].setBuddy(editor.control)
            kinds.addWidget(self._labels[name], 0, at)
            kinds.addWidget(editor, 1, at)
            kinds.setColumnStretch(at, 1)
        quality = QHBoxLayout()
        quality.addWidget(self._quality_label)
        quality.addStretch()
        quality.addWidget(self._quality_text)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addLayout(kinds)
        column.addSpacing(8)
        column.addLayout(quality)
        column.addWidget(self._quality)

    def _show_quality(self) -> None:
        crf = self._worst - self._quality.value()
        self._quality_text.setText(f"{quality_of(crf)} · {crf}")


def quality_of(crf: int) -> str:
    """A CRF as text."""
    if crf == 0:
        return tr("Lossless or nearly lossless")
    if crf <= 14:
        return tr("Very high")
    if crf <= 18:
        return tr("High")
    if crf <= 23:
        return tr("Good")
    if crf <= 30:
        return tr("Small file")
    return tr("Very small file")
