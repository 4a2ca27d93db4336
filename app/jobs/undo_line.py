"""The line below the queue that takes a removal back, and says what was removed."""

from __future__ import annotations

from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app import labels
from app.i18n import tr
from app.state.removals import Removals
from app.widgets.controls import ElidedLabel, Translated
from app.widgets.plain import Label, set_tip


class UndoLine(Translated, QFrame):
    """Hidden while there is nothing to take back."""

    def __init__(self, removals: Removals, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("undoLine")
        self.setProperty("kind", "card")
        self._removals = removals
        self._text, self._held = ElidedLabel(), Label()
        self._held.setProperty("kind", "secondary")
        self._undo = QPushButton()
        self._undo.setObjectName("undoRemoval")
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(self._text)
        texts.addWidget(self._held)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 8, 8, 8)
        row.addLayout(texts, 1)
        row.addWidget(self._undo)
        self._undo.clicked.connect(removals.undo)
        removals.changed.connect(self.retranslate_ui)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        last = self._removals.last
        self.setVisible(last is not None)
        self._undo.setText(tr("Undo"))
        set_tip(self._undo, "Ctrl+Z")
        if last is None:
            return
        one = last.rows[0] if len(last.rows) == 1 else None
        name = one.name if one is not None else tr("{count} videos", count=last.count)
        self._text.setText(tr("Removed: {name}", name=name))
        held = labels.held(one) if one is not None else ""
        self._held.setText(held)
        self._held.setVisible(bool(held))
        self._undo.setAccessibleDescription(f"{self._text.whole} {held}".strip())
