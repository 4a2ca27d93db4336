"""Choices of SeedVR2 alone: its strength."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.engine_messages import setting_title
from app.i18n import tr
from app.widgets.controls import Translated, WheellessSlider
from app.widgets.plain import Label, set_tip
from engine.settings import schema

_STEP = 5  # percent, by the arrow keys


class SeedVr2Form(Translated, QWidget):
    """Edits the strength; only shown where SeedVR2 is chosen."""

    changed = Signal(dict)  # name -> value

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        about = schema.about("strength")
        self._label, self._explanation = Label(), Label()
        self._slider = WheellessSlider(Qt.Orientation.Horizontal)
        self._slider.setObjectName("setting-strength")
        self._slider.setRange(int(about.low or 0), int(about.high or 100))
        self._slider.setSingleStep(_STEP)
        self._slider.setPageStep(4 * _STEP)
        self._label.setBuddy(self._slider)
        head = QHBoxLayout()
        head.addWidget(self._label)
        head.addStretch()
        head.addWidget(self._explanation)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addLayout(head)
        column.addWidget(self._slider)
        self._slider.valueChanged.connect(self._show_strength)
        self._slider.valueChanged.connect(lambda value: self.changed.emit({"strength": value}))
        self.retranslate_ui()

    def show_settings(self, settings: schema.JobSettings) -> None:
        """Show the values of a job without saying that they changed."""
        self._slider.blockSignals(True)
        self._slider.setValue(settings.strength)
        self._slider.blockSignals(False)
        self._show_strength()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self._label.setText(setting_title("strength"))
        self._slider.setAccessibleName(setting_title("strength"))
        explanation = tr(
            "Lower values keep more of the source. Redrawn detail may not exist in the source."
        )
        for part in (self._label, self._explanation, self._slider):
            set_tip(part, explanation)
        self._slider.setAccessibleDescription(explanation)
        self._show_strength()

    def _show_strength(self) -> None:
        percent = self._slider.value()
        self._explanation.setText(f"{strength_of(percent)} · {percent} %")


def strength_of(percent: int) -> str:
    """What a strength does, as text."""
    if percent == 0:
        return tr("Only resized")
    if percent <= 40:
        return tr("Close to the source")
    if percent <= 75:
        return tr("Half and half")
    if percent < 100:
        return tr("Mostly redrawn")
    return tr("Fully redrawn")
