"""The line about the NVIDIA runtime among the settings: which is in use and why, and its page."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.i18n import tr
from app.runtimes import page_words
from app.state.runtime_model import RuntimeModel


class SettingsPart(QWidget):
    """Name, a sentence, and a button that opens the page."""

    page_wanted = Signal()

    def __init__(self, model: RuntimeModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._name, self._words, self._open = QLabel(), QLabel(), QPushButton()
        self._words.setProperty("kind", "secondary")
        self._words.setWordWrap(True)
        self._words.setObjectName("runtimeSummary")
        self._open.setObjectName("openRuntimes")
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
        model.changed.connect(self.retranslate_ui)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self._name.setText(tr("NVIDIA runtime"))
        self._words.setText(page_words.summary(self._model))
        self._open.setText(tr("Show …"))
        self._open.setAccessibleName(tr("{text}: NVIDIA runtime", text=tr("Show …")))

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.LanguageChange:
            self.retranslate_ui()
