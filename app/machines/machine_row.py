"""Rows of the page: a computer that is paired, and one that waits to be."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.i18n import tr
from app.machines import machine_labels
from app.theme.icons import pixmap
from app.widgets.controls import ElidedLabel
from app.widgets.notice_line import NoticeLine, colour_of
from app.widgets.plain import Label
from engine.protocol.machines import FoundMachine, MachineInfo

_STATE_WIDTH, _BUTTON_WIDTH, _GAP = 148, 112, 12  # px


class MachineRow(QFrame):
    """Shows a computer that is paired; emits that it is to be forgotten."""

    forget_requested = Signal(str)  # its fingerprint

    def __init__(self, machine: MachineInfo, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.machine = machine
        self.setObjectName(f"machine-{machine.fingerprint}")
        self._name, self._about, self._work = (ElidedLabel() for _ in range(3))
        self._icon, self._state = Label(), ElidedLabel()
        self._forget, self._why = QPushButton(), NoticeLine()
        self._lay_out()
        self._forget.clicked.connect(lambda: self.forget_requested.emit(self.machine.fingerprint))
        self.show_machine(machine)

    def show_machine(self, machine: MachineInfo) -> None:
        """Show what has changed, in the current language."""
        self.machine = machine
        self._name.setText(machine.name)
        _show_or_hide(self._about, machine_labels.about(machine))
        _show_or_hide(self._work, machine_labels.work(machine))
        self._draw()
        severity, sentence, help_ = machine_labels.why(machine)
        self._why.setVisible(bool(sentence))
        self._why.show_message(severity, sentence, help_)
        self._forget.setText(tr("Forget …"))
        self._forget.setAccessibleName(tr("Forget {name}", name=machine.name))

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme; texts come again from the page."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._draw()

    def _draw(self) -> None:
        shape, severity, text = machine_labels.state_of(self.machine)
        self._icon.setPixmap(pixmap(shape, colour_of(severity), 16))
        self._state.setText(text)

    def _lay_out(self) -> None:
        self._name.setProperty("kind", "strong")
        self._about.setProperty("kind", "secondary")
        self._work.setProperty("kind", "small")
        self._forget.setObjectName(f"forget-{self.machine.fingerprint}")
        self._forget.setAutoDefault(False)
        state = QHBoxLayout()
        state.setSpacing(6)
        state.addWidget(self._icon)
        state.addWidget(self._state, 1)
        _fill(self, (self._name, self._about, self._work), state, self._forget, self._why)


class FoundRow(QFrame):
    """Shows a computer that waits to be paired; emits that this is wanted."""

    pair_requested = Signal(str)  # its address

    def __init__(self, found: FoundMachine, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName(f"found-{found.address}")
        self._found = found
        self._name, self._about, self._pair = ElidedLabel(), ElidedLabel(), QPushButton()
        self._name.setProperty("kind", "strong")
        self._about.setProperty("kind", "secondary")
        self._pair.setObjectName(f"pair-{found.address}")
        self._pair.setAutoDefault(False)
        self._pair.clicked.connect(lambda: self.pair_requested.emit(found.address))
        _fill(self, (self._name, self._about), QHBoxLayout(), self._pair)

    def show_found(self, *, is_idle: bool) -> None:
        """Show it in the current language; its button works while no pairing is under way."""
        self._name.setText(self._found.name)
        self._about.setText(self._found.address)
        self._pair.setText(tr("Pair"))
        self._pair.setAccessibleName(tr("Pair with {name}", name=self._found.name))
        self._pair.setEnabled(is_idle)


def _show_or_hide(label: ElidedLabel, text: str) -> None:
    label.setText(text)
    label.setVisible(bool(text))


def _fill(
    row: QFrame,
    texts: tuple[QWidget, ...],
    state: QHBoxLayout,
    button: QPushButton,
    below: QWidget | None = None,
) -> None:
    """Texts, a state and a button side by side in columns that all rows share."""
    left = QVBoxLayout()
    left.setSpacing(1)
    for label in texts:
        left.addWidget(label)
    middle = QWidget()
    middle.setFixedWidth(_STATE_WIDTH)
    middle.setLayout(state)
    state.setContentsMargins(0, 0, 0, 0)
    button.setFixedWidth(_BUTTON_WIDTH)
    head = QHBoxLayout()
    head.setSpacing(_GAP)
    head.addLayout(left, 1)
    head.addWidget(middle)
    head.addWidget(button)
    column = QVBoxLayout(row)
    column.setContentsMargins(14, 10, 14, 10)
    column.setSpacing(8)
    column.addLayout(head)
    if below is not None:
        column.addWidget(below)
