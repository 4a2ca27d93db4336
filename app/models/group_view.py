"""A group of the list of models, and the names of its columns."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.i18n import tr
from app.models import model_labels
from app.models.download_row import (
    BUTTON_WIDTH,
    GAP,
    LICENCE_WIDTH,
    MORE_WIDTH,
    SIZE_WIDTH,
    STATE_WIDTH,
)

SHARED = ""  # the group of files that belong to no single model


class Group(QWidget):
    """A heading, what it means, and a card with rows."""

    def __init__(self) -> None:
        super().__init__()
        self._title, self._words = QLabel(), QLabel()
        self._title.setProperty("kind", "title")
        self._words.setProperty("kind", "secondary")
        head = QHBoxLayout()
        head.setSpacing(10)
        head.addWidget(self._title)
        head.addWidget(self._words, 1, Qt.AlignmentFlag.AlignBottom)
        card = QFrame()
        card.setProperty("kind", "card")
        self._inside = QVBoxLayout(card)
        self._inside.setContentsMargins(0, 2, 0, 2)
        self._inside.setSpacing(0)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addLayout(head)
        column.addWidget(card)

    def set_texts(self, title: str, text: str) -> None:
        """Name of the group and a sentence about it."""
        self._title.setText(title)
        self._words.setText(text)

    def add(self, row: QWidget) -> None:
        """One more row, below a thin line."""
        if self._inside.count():
            rule = QFrame()
            rule.setProperty("kind", "rule")
            self._inside.addWidget(rule)
        self._inside.addWidget(row)


class ColumnHeads(QWidget):
    """Names of the columns, above them."""

    def __init__(self) -> None:
        super().__init__()
        self._labels = [QLabel() for _ in range(4)]
        row = QHBoxLayout(self)
        row.setContentsMargins(15, 0, 9 + BUTTON_WIDTH + MORE_WIDTH + 2 * GAP, 0)
        row.setSpacing(GAP)
        widths = (None, SIZE_WIDTH, LICENCE_WIDTH, STATE_WIDTH)
        for label, width in zip(self._labels, widths, strict=True):
            label.setProperty("kind", "secondary")
            if width is not None:
                label.setFixedWidth(width)
            row.addWidget(label, 0 if width is not None else 1)
        self._labels[1].setAlignment(Qt.AlignmentFlag.AlignRight)

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        texts = (tr("File"), tr("Size"), tr("Licence"), tr("State"))
        for label, text in zip(self._labels, texts, strict=True):
            label.setText(text)


def group_texts(model: str) -> tuple[str, str]:
    """Name of a group and a sentence about it."""
    if model == SHARED:
        return tr("Used by all of SeedVR2"), tr("Fetched along with the first model.")
    return model_labels.model_title(model), model_labels.model_words(model)
