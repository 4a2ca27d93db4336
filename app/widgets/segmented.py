"""A row of choices of which exactly one is taken."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QButtonGroup, QFrame, QHBoxLayout, QPushButton, QSizePolicy, QWidget


class SegmentedControl(QFrame):
    """Exclusive buttons side by side; left and right arrow keys walk along them."""

    chosen = Signal(str)  # key; only by the user, never by `set_current`

    def __init__(self, keys: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "segments")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._group = QButtonGroup(self)
        self._buttons: dict[str, QPushButton] = {}
        row = QHBoxLayout(self)
        row.setContentsMargins(3, 3, 3, 3)
        row.setSpacing(2)
        for key in keys:
            button = QPushButton(key)
            button.setProperty("kind", "segment")
            button.setObjectName(f"segment-{key}")
            button.setCheckable(True)
            button.setCursor(Qt.CursorShape.PointingHandCursor)
            button.clicked.connect(lambda _checked=False, key=key: self.chosen.emit(key))
            self._group.addButton(button)
            self._buttons[key] = button
            row.addWidget(button, 1)

    @property
    def current(self) -> str:
        """Key of the taken choice; "" while there is none."""
        return next((key for key, button in self._buttons.items() if button.isChecked()), "")

    def set_current(self, key: str) -> None:
        """Show a choice as taken; an unknown key leaves none taken."""
        button = self._buttons.get(key)
        if button is not None:
            button.setChecked(True)
            return
        self._group.setExclusive(False)
        for other in self._buttons.values():
            other.setChecked(False)
        self._group.setExclusive(True)

    def set_labels(self, labels: dict[str, str]) -> None:
        """New texts of the buttons, by key."""
        for key, label in labels.items():
            self._buttons[key].setText(label)

    def set_tips(self, tips: dict[str, str]) -> None:
        """New explanations of the buttons, by key; read out by screen readers too."""
        for key, tip in tips.items():
            self._buttons[key].setToolTip(tip)
            self._buttons[key].setAccessibleDescription(tip)

    def button(self, key: str) -> QPushButton:
        """The button of a key."""
        return self._buttons[key]

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk with the arrow keys, as radio buttons do."""
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        keys = list(self._buttons)
        if step is None or not self.current:
            super().keyPressEvent(event)
            return
        key = keys[(keys.index(self.current) + step) % len(keys)]
        self._buttons[key].setFocus(Qt.FocusReason.TabFocusReason)
        self._buttons[key].click()
