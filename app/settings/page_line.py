"""A line among the settings that leads to a page of its own."""

from __future__ import annotations

from abc import abstractmethod

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.widgets.translation import Translated


class PageLine(Translated, QWidget):
    """Name, a sentence, and a button that opens the page.

    Args:
        name: What the objects are called: `<name>Summary` and `open<Name>s`.
        parent: Its owner.
    """

    page_wanted = Signal()

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.name, self.words, self.button = QLabel(), QLabel(), QPushButton()
        self.words.setProperty("kind", "secondary")
        self.words.setWordWrap(True)
        self.words.setObjectName(f"{name}Summary")
        self.button.setObjectName(f"open{name.capitalize()}s")
        self.button.setAutoDefault(False)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(self.name)
        texts.addWidget(self.words)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(24)
        row.addLayout(texts, 1)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignVCenter)
        self.button.clicked.connect(self.page_wanted)

    @abstractmethod
    def retranslate_ui(self) -> None:
        """All texts in the current language."""
