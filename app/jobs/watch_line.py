"""The line at the foot of the queue that says which folder is watched, with a switch."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app import labels
from app.i18n import tr
from app.widgets.controls import ElidedLabel, Switch, Translated
from app.widgets.plain import Label, set_tip


class WatchLine(Translated, QFrame):
    """Hidden until a folder is watched; stays when that is switched off, to switch it on again."""

    toggled = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("watchLine")
        self.setProperty("kind", "card")
        self._folder, self._is_away = Path(), False
        self._switch = Switch()
        self._switch.setObjectName("watchSwitch")
        self._text, self._away = ElidedLabel(), Label()
        self._away.setProperty("kind", "secondary")
        self._away.setWordWrap(True)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(self._text)
        texts.addWidget(self._away)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 8, 8, 8)
        row.addLayout(texts, 1)
        row.addWidget(self._switch)
        self._switch.clicked.connect(self.toggled)
        self.hide()

    def show_folder(self, folder: str, *, is_on: bool, is_away: bool) -> None:
        """Show what is watched.

        Args:
            folder: That is watched, or was until it was switched off; "" for none.
            is_on: Whether it is watched now.
            is_away: Whether it cannot be read at the moment.
        """
        self._folder, self._is_away = Path(folder), is_away
        self._switch.setChecked(is_on)
        self.setVisible(bool(folder))
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        name = self._folder.name or str(self._folder)  # of a drive
        is_on = self._switch.isChecked()
        text = (
            tr("Watched: {folder}", folder=name)
            if is_on
            else tr("Not watched: {folder}", folder=name)
        )
        self._text.setText(text)
        self._away.setText(tr("Not available. Continues when it is available again."))
        self._away.setVisible(self._is_away)
        whole = labels.folder(self._folder)
        set_tip(self, whole)
        self._switch.setAccessibleName(tr("Add videos from the watched folder"))
        set_tip(self._switch, tr("Add videos from the watched folder"))
        self._switch.setAccessibleDescription(whole)
