"""The row that chooses which two videos are compared, where a source has several results."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSizePolicy, QWidget

from app import engine_messages
from app.bound import bind
from app.i18n import tr
from app.preview.film import Film
from app.widgets.controls import ChoiceBox
from app.widgets.layouts import column, row
from app.widgets.notice_line import NoticeLine
from app.widgets.parts import bind_text, label, named
from app.widgets.plain import Label, set_tip
from engine.core.errors import ErrorInfo


class PairBar(QWidget):
    """Two lists of the same videos, A and B; what the other one has, both exchange."""

    chosen = Signal(str, str)  # keys of two videos

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "pairBar")
        self._boxes = (ChoiceBox(), ChoiceBox())
        self._keys = ("", "")
        self._error: ErrorInfo | None = None
        self._lists, self._problem = QWidget(), named(NoticeLine("warning"), "pairProblem")
        first, second = (self._letter(at) for at in range(2))
        lists = first, (self._boxes[0], 1), 8, second, (self._boxes[1], 1)
        row(*lists, spacing=8, on=self._lists)
        column(self._lists, self._problem, spacing=8, on=self)
        self._lists.hide()
        bind(self, lambda: self.show_problem(self._error))

    def _letter(self, at: int) -> Label:
        """Makes the letter of a video, whose list it names."""
        box, letter = self._boxes[at], "AB"[at]
        named(box, f"film{letter}")
        box.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click leaves the keys to the picture
        box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        box.activated.connect(lambda _index: self._choose(at))
        bind_text(box, box.setAccessibleName, lambda: tr("Video {letter}", letter=letter))
        made = label(lambda: letter, "strong")
        made.setBuddy(box)
        return made

    def show_films(self, films: Sequence[Film], shown: tuple[Film, Film]) -> None:
        """Show the results to choose from, and the shown one; hidden without another result."""
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
        """Why a video that was compared is no longer offered; None for nothing."""
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
