"""Lines of text with an icon or a button: a notice, and the way to a page of the settings."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.bound import bind
from app.theme import tokens
from app.theme.icons import pixmap
from app.widgets.layouts import MIDDLE, TOP, column, row
from app.widgets.parts import Text, button, label

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
        self._icon = label()
        self._icon.setFixedSize(16, 18)
        self._message = label(wraps=True, selectable=True)
        self._hint = label(kind="secondary", wraps=True, selectable=True)
        texts = column(self._message, self._hint, spacing=2)
        row((self._icon, 0, TOP), (texts, 1), spacing=8, on=self)
        self.show_message(severity, message, hint)
        bind(self, self._draw, theme=True)

    def show_message(self, severity: str, message: str, hint: str = "") -> None:
        """Show another sentence."""
        self._severity = severity
        self._message.setText(message)
        self._hint.setText(hint)
        self._hint.setVisible(bool(hint))
        self._draw()

    def _draw(self) -> None:
        name = ICONS[self._severity]
        self._icon.setPixmap(pixmap(name, colour_of(self._severity), 16))


class PageLine(QWidget):
    """Name, a sentence, and a button that opens the page.

    Args:
        name: Prefix of the names of objects: `<name>Summary` and `open<Name>s`.
        parent: Its owner.
        title: Text of the name.
        explanation: Text of the sentence.
        text: Text of the button.
        says: Name of the button for screen readers, where it is not its text.
    """

    page_requested = Signal()

    def __init__(
        self,
        name: str,
        parent: QWidget | None = None,
        *,
        title: Text = "",
        explanation: Text = "",
        text: Text = "",
        says: Text = "",
    ) -> None:
        super().__init__(parent)
        self.name = label(title)
        self.explanation = label(explanation, "secondary", name=f"{name}Summary", wraps=True)
        opens = f"open{name.capitalize()}s"
        self.button = button(text, opens, says=says, on=self.page_requested, auto_default=False)
        texts = column(self.name, self.explanation, spacing=2)
        row((texts, 1), (self.button, 0, MIDDLE), spacing=24, on=self)
