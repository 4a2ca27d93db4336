"""The line about updates among the settings: which version this is, and the way to a newer one."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.i18n import tr
from engine import __version__


class SettingsPart(QWidget):
    """Name, a sentence, and a button that opens the page and looks."""

    page_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name, self._words, self._open = QLabel(), QLabel(), QPushButton()
        self._words.setProperty("kind", "secondary")
        self._words.setWordWrap(True)
        self._words.setObjectName("updateSummary")
        self._open.setObjectName("openUpdates")
        self._open.setAutoDefault(False)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(self._name)
        texts.addWidget(self._words)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(24)
        row.addLayout(texts, 1)
        row.addWidget(self._open, 0, Qt.AlignmentFlag.AlignVCenter)
        self._open.clicked.connect(self.page_wanted)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self._name.setText(tr("Updates"))
        yours = tr("You have Upreel {version}.", version=__version__)
        never = tr("Upreel looks for a newer version only when you ask here, never by itself.")
        self._words.setText(f"{yours} {never}")
        self._open.setText(tr("Look for updates …"))

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.LanguageChange:
            self.retranslate_ui()
