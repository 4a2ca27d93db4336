"""The row that chooses which two films are compared, where a source has several results."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from app import engine_messages
from app.i18n import tr
from app.preview.film import Film
from app.widgets.controls import ChoiceBox, Translated
from app.widgets.notice_line import NoticeLine
from app.widgets.plain import Label, set_tip
from engine.core.errors import ErrorInfo


class PairBar(Translated, QWidget):
    """Two lists of the same films, A and B; what the other one has, both exchange."""

    chosen = Signal(str, str)  # keys of two films
    retranslated = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("pairBar")
        self._boxes = (ChoiceBox(), ChoiceBox())
        self._keys = ("", "")
        self._error: ErrorInfo | None = None
        self._lists, self._problem = QWidget(), NoticeLine("warning")
        self._problem.setObjectName("pairProblem")
        self._lay_out()
        self._lists.hide()
        self.retranslate_ui()

    def _lay_out(self) -> None:
        row = QHBoxLayout(self._lists)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        for at, box in enumerate(self._boxes):
            box.setObjectName(f"film{'AB'[at]}")
            box.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click leaves the keys to the picture
            box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            box.activated.connect(lambda _index, at=at: self._choose(at))
            letter = Label("AB"[at])
            letter.setProperty("kind", "strong")
            letter.setBuddy(box)
            row.addWidget(letter)
            row.addWidget(box, 1)
        row.insertSpacing(2, 8)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self._lists)
        column.addWidget(self._problem)

    def show_films(self, films: Sequence[Film], shown: tuple[Film, Film]) -> None:
        """What there is to choose from, and what is shown; hidden without another result."""
        self._keys = (shown[0].key, shown[1].key)
        for box, key in zip(self._boxes, self._keys, strict=True):
            box.clear()
            for film in films:
                box.offer(film.label, film.key)
            box.setCurrentIndex(box.findData(key))
            set_tip(box, box.currentText())
        self._lists.setVisible(len(films) > 2)
        self._show()

    @property
    def has_choice(self) -> bool:
        """Whether there is more than the original and one result."""
        return not self._lists.isHidden()

    def show_problem(self, error: ErrorInfo | None) -> None:
        """Why a film that was compared is no longer offered; None for nothing."""
        self._error = error
        if error is not None:
            sentences = engine_messages.text(error), engine_messages.hint(error)
            self._problem.show_message("warning", *sentences)
        self._show()

    def _show(self) -> None:
        self._problem.setVisible(self._error is not None)
        self.setVisible(self._error is not None or self.has_choice)

    def _choose(self, at: int) -> None:
        key, keys = self._boxes[at].currentData(), list(self._keys)
        if key == keys[at]:
            return
        if key == keys[1 - at]:
            keys[1 - at] = keys[at]
        keys[at] = key
        self.show_problem(None)
        self.chosen.emit(*keys)

    def retranslate_ui(self) -> None:
        """Texts in the current language; the films are named by who sets them."""
        self.show_problem(self._error)
        for at, box in enumerate(self._boxes):
            box.setAccessibleName(tr("Video {letter}", letter="AB"[at]))
        self.retranslated.emit()
