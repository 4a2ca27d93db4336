"""The dialog of a pairing: six words that have to be the same on both screens."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.i18n import tr
from app.machines import machine_labels
from app.state.machines_model import MachinesModel, Step
from app.widgets.controls import Themed, fit_height
from app.widgets.notice_line import NoticeLine
from app.widgets.plain import Label

_WORDS, _IN_A_LINE = 6, 3
_WIDTH = 560  # px


class PairingDialog(Themed, QDialog):
    """Shows how far the pairing of the model is; closes by itself when it is over."""

    answered = Signal(bool)  # whether the words are the same
    cancel_requested = Signal()
    again_requested = Signal()
    read = Signal()  # a failure was read

    def __init__(self, model: MachinesModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("pairingDialog")
        self.setWindowModality(Qt.WindowModality.WindowModal)
        self.resize(_WIDTH, 260)
        self._model = model
        self._title, self._lead, self._waits = Label(), Label(), Label()
        self._card, self._words = QFrame(), [Label() for _ in range(_WORDS)]
        self._problem = NoticeLine()
        self._same, self._differ, self._cancel, self._again = (QPushButton() for _ in range(4))
        self._name_parts()
        self._lay_out()
        self._same.clicked.connect(lambda: self.answered.emit(True))
        self._differ.clicked.connect(lambda: self.answered.emit(False))
        self._cancel.clicked.connect(self.reject)
        self._again.clicked.connect(self.again_requested)
        model.changed.connect(self.retranslate_ui)
        self.retranslate_ui()

    def reject(self) -> None:
        """Escape, Cancel and Close: give the pairing up, or take note that it failed."""
        if self._model.step is Step.FAILED:
            self.read.emit()
        else:
            self.cancel_requested.emit()

    def retranslate_ui(self) -> None:
        """All texts in the current language, as far as the pairing is."""
        step, partner = self._model.step, self._model.partner
        if step is Step.REST:
            self.hide()
            return
        self.setWindowTitle(tr("Pair with {name}", name=partner) if partner else tr("Pair"))
        self._show_texts(step, partner)
        self._show_words(step)
        error = self._model.error
        self._problem.setVisible(error is not None)
        if error is not None:
            self._problem.show_message("refusal", *machine_labels.problem(error))
        compares, failed = step is Step.WORDS, step is Step.FAILED
        for button in (self._same, self._differ):
            button.setVisible(compares)
        self._again.setVisible(failed and bool(self._model.address))
        self._same.setText(tr("Words match"))
        self._differ.setText(tr("Words differ"))
        self._again.setText(tr("Try again"))
        self._cancel.setText(tr("Close") if failed else tr("Cancel"))
        fit_height(self)

    def _show_texts(self, step: Step, partner: str) -> None:
        titles = {
            Step.CALLING: tr("Contacting {name} …", name=partner),
            Step.WORDS: tr("Does {name} show these words?", name=partner),
            Step.WAITING: tr("Does {name} show these words?", name=partner),
            Step.FAILED: tr("Not paired"),
        }
        self._title.setText(titles[step])
        self._lead.setVisible(step in (Step.CALLING, Step.WORDS))
        if step is Step.CALLING:
            self._lead.setText(tr("Keep the Computers page open on that computer."))
        else:
            self._lead.setText(
                tr(
                    "Compare all six words on both screens. Pairing gives each computer the right "
                    "to run programs on the other. If the words differ, a third computer may be "
                    "intercepting the connection."
                )
            )
        self._waits.setVisible(step is Step.WAITING)
        self._waits.setText(tr("Waiting for confirmation on {name} …", name=partner))

    def _show_words(self, step: Step) -> None:
        said = self._model.words
        self._card.setVisible(said is not None and step in (Step.WORDS, Step.WAITING))
        if said is None:
            return
        for label, word in zip(self._words, said.words, strict=True):
            label.setText(word)
        self._card.setAccessibleName(" ".join(said.words))

    def _name_parts(self) -> None:
        self._title.setProperty("kind", "headline")
        self._lead.setProperty("kind", "secondary")
        self._waits.setProperty("kind", "strong")
        for label in (self._title, self._lead, self._waits):
            label.setWordWrap(True)
        self._card.setProperty("kind", "card")
        self._card.setObjectName("pairingWords")
        for word in self._words:
            word.setProperty("kind", "word")
            word.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._same.setObjectName("pairingSame")
        self._differ.setObjectName("pairingDiffer")
        self._cancel.setObjectName("pairingCancel")
        self._again.setObjectName("pairingAgain")
        for button in (self._same, self._differ, self._cancel, self._again):
            button.setAutoDefault(False)  # Enter confirms no words that were not read

    def _lay_out(self) -> None:
        grid = QGridLayout(self._card)
        grid.setContentsMargins(14, 14, 14, 14)
        grid.setSpacing(12)
        for at, word in enumerate(self._words):
            grid.addWidget(word, *divmod(at, _IN_A_LINE))
        for column_ in range(_IN_A_LINE):
            grid.setColumnStretch(column_, 1)
        foot = QHBoxLayout()
        foot.setSpacing(12)
        for button in (self._cancel, self._again):  # no button takes the place of another one
            foot.addWidget(button)
        foot.addStretch(1)
        for button in (self._differ, self._same):
            foot.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 16, 20, 16)
        column.setSpacing(12)
        for part in (self._title, self._lead, self._card, self._waits, self._problem):
            column.addWidget(part)
        column.addStretch(1)
        column.addLayout(foot)
        self._title.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self._title.setFocus(Qt.FocusReason.OtherFocusReason)  # no focus ring before Tab is pressed
