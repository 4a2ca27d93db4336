"""The dialog of a pairing: six words that have to be the same on both screens.

Words that have just come cannot be confirmed: a second click on the button may have been meant for
others, which were at their place.
"""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QWidget

from app.bound import bind
from app.i18n import tr
from app.machines import machine_labels
from app.state.machines_model import MachinesModel, Step
from app.widgets.layouts import CENTRE, Stretch, grid, row
from app.widgets.notice_line import NoticeLine
from app.widgets.page import Page
from app.widgets.parts import button, label, named

_WORDS, _IN_A_LINE = 6, 3
READING_MS = 1000  # after which words can be confirmed


class PairingDialog(Page):
    """Shows how far the pairing of the model is; closes by itself when it is over."""

    answered = Signal(tuple, bool)  # the words that were shown, and whether they are the same
    cancel_requested = Signal()
    again_requested = Signal()
    read = Signal()  # a failure was read

    def __init__(self, model: MachinesModel, parent: QWidget | None = None) -> None:
        super().__init__("pairingDialog", parent=parent, size=QSize(560, 260))
        self.setWindowModality(Qt.WindowModality.WindowModal)
        self._model = model
        self._shown: tuple[str, ...] = ()
        self._reading = QTimer(self, interval=READING_MS, singleShot=True)
        self._title = label(kind="headline", wraps=True)
        self._lead = label(kind="secondary", wraps=True)
        self._waits = label(kind="strong", wraps=True)
        self._card = named(QFrame(), "pairingWords", "card")
        self._words = [label(kind="word", align=CENTRE) for _ in range(_WORDS)]
        self._problem = NoticeLine()
        # Enter confirms no words that were not read: no button is a default one.
        self._same = button(
            "Words match",
            "pairingSame",
            on=lambda: self.answered.emit(self._shown, True),
            auto_default=False,
        )
        self._differ = button(
            "Words differ",
            "pairingDiffer",
            on=lambda: self.answered.emit(self._shown, False),
            auto_default=False,
        )
        self._cancel = button(name="pairingCancel", on=self.reject, auto_default=False)
        self._again = button(
            "Try again", "pairingAgain", on=self.again_requested, auto_default=False
        )
        self._lay_out()
        self._reading.timeout.connect(lambda: self._same.setEnabled(True))
        model.changed.connect(self._show)
        bind(self, self._show)

    def reject(self) -> None:
        """Escape, Cancel and Close: give the pairing up, or take note that it failed."""
        if self._model.step is Step.FAILED:
            self.read.emit()
        else:
            self.cancel_requested.emit()

    def _show(self) -> None:
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
        for answer in (self._same, self._differ):
            answer.setVisible(compares)
        self._again.setVisible(failed and bool(self._model.address))
        self._cancel.setText(tr("Close") if failed else tr("Cancel"))
        self.fit_height()

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
        if said.words != self._shown:
            self._shown = said.words
            self._same.setEnabled(False)
            self._reading.start()
        for shown, word in zip(self._words, said.words, strict=True):
            shown.setText(word)
        self._card.setAccessibleName(" ".join(said.words))

    def _lay_out(self) -> None:
        lines = [self._words[:_IN_A_LINE], self._words[_IN_A_LINE:]]
        grid(lines, spacing=12, margins=14, wide=range(_IN_A_LINE), on=self._card)
        self.fill(
            self._title,
            self._lead,
            self._card,
            self._waits,
            self._problem,
            Stretch(1),
            # No button takes the place of another one.
            row(self._cancel, self._again, Stretch(1), self._differ, self._same, spacing=12),
            spacing=12,
            focus=self._title,
        )
