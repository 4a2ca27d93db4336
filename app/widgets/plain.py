"""Plain text in the window, whoever wrote it: a name of a stranger is never HTML.

Qt's labels, message boxes and tool tips take what looks like HTML for HTML: they draw its pictures,
open the paths of these, which on Windows may be paths in a network, and hide what stands behind
"<!--". The window uses this module instead of `QLabel`, `QMessageBox`, `QTextBrowser` and
`setToolTip`; `tests/app/test_foreign_text.py` finds what does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Protocol

from PySide6 import QtGui
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QLabel, QMessageBox, QTextBrowser, QWidget

from engine.core.plain_text import one_line, printable


class Label(QLabel):
    """A label of plain text."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(printable(text), parent)
        self.setTextFormat(Qt.TextFormat.PlainText)

    def setText(self, text: str) -> None:
        """Show another text."""
        super().setText(printable(text))


class Legend(QLabel):
    """Texts in a line, each after a square of its colour: rich text on purpose, ours alone."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.RichText)

    def show_parts(self, parts: Sequence[tuple[str, str]]) -> None:
        """Show other texts, each with its colour."""
        texts = (f'<span style="color:{colour}">■</span> {escape(text)}' for colour, text in parts)
        self.setText(" &nbsp; ".join(texts))


class RichTextView(QTextBrowser):
    """Markdown or HTML that scrolls; it loads nothing from outside."""

    def loadResource(self, _kind: int, _name: QUrl | str) -> QImage:
        """A transparent image in place of any: for nothing at all Qt would open the file itself."""
        nothing = QImage(1, 1, QImage.Format.Format_ARGB32)
        nothing.fill(0)
        return nothing


class _HasTip(Protocol):
    def setToolTip(self, tip: str, /) -> object: ...


def set_tip(target: _HasTip, text: str) -> None:
    """Give a widget or an action a tool tip; "" for none."""
    target.setToolTip(tip(text))


def tip(text: str) -> str:
    """A tool tip as Qt shows it unchanged: what looks like HTML is escaped."""
    text = printable(text)
    has_sign = "<" in text or "&lt;" in text  # all that Qt knows HTML by
    if not has_sign or not QtGui.Qt.mightBeRichText(text):
        return text
    return QtGui.Qt.convertFromPlainText(text, Qt.WhiteSpaceMode.WhiteSpacePre)


def caption(text: str) -> str:
    """A foreign name on a button or in a menu, where "&" would name a key."""
    return one_line(text).replace("&", "&&")


def message_box(
    icon: QMessageBox.Icon,
    text: str,
    consequence: str = "",
    details: str = "",
    parent: QWidget | None = None,
) -> QMessageBox:
    """A box with texts and no buttons yet.

    Args:
        icon: Kind of the message.
        text: The message or question.
        consequence: Smaller, below it.
        details: For a report; shown on request.
        parent: Window that it belongs to.
    """
    box = QMessageBox(parent)
    box.setIcon(icon)
    box.setWindowTitle("Upreel")
    box.setText(printable(text))
    box.setInformativeText(printable(consequence))
    if details:
        box.setDetailedText(printable(details))
    for label in box.findChildren(QLabel):  # the smaller text has no other way to its format
        label.setTextFormat(Qt.TextFormat.PlainText)
    return box
