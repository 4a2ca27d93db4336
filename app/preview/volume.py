"""How loud playback is: a button that mutes, and a slider."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QSlider, QToolButton, QWidget

from app.i18n import tr
from app.theme.icons import icon
from app.ui_state import UiState
from app.widgets.plain import set_tip

_WIDTH = 72  # px of the slider


class VolumeControl(QWidget):
    """Emits what samples are multiplied by; the user's choice is kept between runs."""

    gain_changed = Signal(float)  # 0 to 1

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kept: UiState | None = None
        self.mute, self.slider = QToolButton(), QSlider(Qt.Orientation.Horizontal)
        self.mute.setObjectName("muteButton")
        self.mute.setCheckable(True)
        self.mute.setProperty("kind", "icon")
        self.mute.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.slider.setObjectName("volumeSlider")
        self.slider.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.slider.setRange(0, 100)
        self.slider.setValue(100)
        self.slider.setFixedWidth(_WIDTH)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        row.addWidget(self.mute)
        row.addWidget(self.slider)
        self.mute.toggled.connect(self._changed)
        self.slider.valueChanged.connect(self._changed)
        self._label()

    @property
    def gain(self) -> float:
        """What samples are multiplied by: the square, as the ear hears steps of it as even."""
        return 0.0 if self.mute.isChecked() else (self.slider.value() / 100) ** 2

    def keep_in(self, state: UiState) -> None:
        """Begin as the last run ended, and remember what is chosen."""
        self.slider.setValue(state.volume)
        self.mute.setChecked(state.is_muted)
        self._kept = state

    def _changed(self) -> None:
        if self._kept is not None:
            self._kept.volume = self.slider.value()
            self._kept.is_muted = self.mute.isChecked()
        self._label()
        self.gain_changed.emit(self.gain)

    def changeEvent(self, event: QEvent) -> None:
        """Another language or theme."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.LanguageChange, QEvent.Type.StyleChange):
            self._label()

    def _label(self) -> None:
        is_silent = self.gain == 0
        self.mute.setIcon(icon("muted" if is_silent else "sound", size=16))
        name = tr("Sound on") if self.mute.isChecked() else tr("Mute")
        for part, text in ((self.mute, name), (self.slider, tr("Volume"))):
            set_tip(part, text)
            part.setAccessibleName(text)
