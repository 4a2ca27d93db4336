"""Lines of text with an icon or a button: a notice, and the way to a page of the settings."""

from __future__ import annotations

from abc import abstractmethod

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.theme import tokens
from app.theme.icons import pixmap
from app.widgets.controls import Translated
from app.widgets.plain import Label

ICONS = {"good": "check", "info": "info", "warning": "warning", "refusal": "error"}


def colour_of(severity: str) -> str:
    """The colour of a severity in the current theme."""
    theme = tokens.current()
    return {
        "good": theme.accent,
        "info": theme.information,
        "warning": theme.warning,
        "refusal": theme.error,
    }[severity]


class NoticeLine(QWidget):
    """Icon, message and, smaller, what to do."""

    def __init__(
        self,
        severity: str = "info",
        message: str = "",
        hint: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._severity = severity
        self._icon = Label()
        self._icon.setFixedSize(16, 18)
        self._message, self._hint = Label(), Label()
        self._hint.setProperty("kind", "secondary")
        for label in (self._message, self._hint):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(self._message)
        texts.addWidget(self._hint)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(texts, 1)
        self.show_message(severity, message, hint)

    def show_message(self, severity: str, message: str, hint: str = "") -> None:
        """Show another sentence."""
        self._severity = severity
        self._message.setText(message)
        self._hint.setText(hint)
        self._hint.setVisible(bool(hint))
        self._draw()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._draw()

    def _draw(self) -> None:
        name = ICONS[self._severity]
        self._icon.setPixmap(pixmap(name, colour_of(self._severity), 16))


class PageLine(Translated, QWidget):
    """Name, a sentence, and a button that opens the page.

    Args:
        name: Prefix of the names of objects: `<name>Summary` and `open<Name>s`.
        parent: Its owner.
    """

    page_requested = Signal()

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.name, self.explanation, self.button = Label(), Label(), QPushButton()
        self.explanation.setProperty("kind", "secondary")
        self.explanation.setWordWrap(True)
        self.explanation.setObjectName(f"{name}Summary")
        self.button.setObjectName(f"open{name.capitalize()}s")
        self.button.setAutoDefault(False)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(self.name)
        texts.addWidget(self.explanation)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(24)
        row.addLayout(texts, 1)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignVCenter)
        self.button.clicked.connect(self.page_requested)

    @abstractmethod
    def retranslate_ui(self) -> None:
        """All texts in the current language."""
