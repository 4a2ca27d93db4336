"""What comes out: twice or four times the size, 1080p, 4K, or exact numbers."""

from __future__ import annotations

import dataclasses

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QLabel, QVBoxLayout, QWidget

from app.engine_messages import setting_title
from app.i18n import tr
from app.settings.editors import Editor, make_editor
from app.widgets.segmented import SegmentedControl
from app.widgets.translation import Translated
from engine.settings.schema import JobSettings

FIELDS = ("scale", "height", "width")  # the settings that this form edits
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
        self._labels: dict[str, QLabel] = {}
        grid = QGridLayout(self._fields)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(4)
        for at, name in enumerate(FIELDS):
            self._editors[name] = make_editor(name)
            self._editors[name].changed.connect(self._edit)
            self._labels[name] = QLabel()
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
        """Show the target of another job: an open "Other" closes where a preset says the same."""
        self._row.set_current(preset_of(settings))
        self.show_settings(settings)

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self._row.set_labels({"x2": "×2", "x4": "×4", _OTHER: tr("Other")})
        self._row.set_tips(
            {
                "x2": tr("Twice as wide and high"),
                "x4": tr("Four times as wide and high"),
                "1080p": tr("1080 lines, width to match"),
                "4K": tr("2160 lines, width to match"),
                _OTHER: tr("Exact numbers"),
            }
        )
        self._row.setAccessibleName(tr("What comes out"))
        for name, label in self._labels.items():
            label.setText(setting_title(name))
            self._editors[name].retranslate_ui()

    def _choose(self, preset: str) -> None:
        self._fields.setVisible(preset == _OTHER)
        if preset != _OTHER:
            self._apply(_PRESETS[preset])

    def _edit(self, name: str, value: object) -> None:
        self._apply({name: value})

    def _apply(self, values: dict[str, object]) -> None:
        self._settings = dataclasses.replace(self._settings, **values)
        self.changed.emit(values)
