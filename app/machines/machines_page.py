"""Page of computers: this one, the paired ones, and those that wait to be paired."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QFrame, QLayout, QLineEdit, QPushButton, QWidget

from app.bound import bind
from app.engine_messages import choice_text, setting_title, text
from app.i18n import mark, tr
from app.machines import machine_labels
from app.state.machines_model import MachinesModel
from app.theme.icons import pixmap
from app.widgets.controls import ElidedLabel, Switch
from app.widgets.layouts import STRETCH, Stretch, clear_layout, column, row
from app.widgets.notice_line import NoticeLine, PageLine, colour_of
from app.widgets.page import Page
from app.widgets.parts import (
    bind_text,
    button,
    elided,
    label,
    named,
    rule,
    scroll_area,
)
from engine.core.plain_text import one_line
from engine.protocol.machines import FoundMachine, MachineInfo, MachinesState

_GAP, _GAP_IN_ROWS = 10, 12  # px
_STATE_WIDTH, _BUTTON_WIDTH = 148, 112  # px
_LEAD = mark(
    "Several computers on your network can process one video together. Pairing gives the other "
    "computer the right to run programs on this one: pair only your own computers."
)


class OwnCard(QFrame):
    """This computer: its name, its address to be typed elsewhere, and the switch that lends it."""

    lend_requested = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "ownMachine", "card")
        self._name, self._address = label(kind="title"), label(kind="secondary", selectable=True)
        self._lend, self._meaning = (
            named(Switch(), "lendMachine"),
            label(kind="secondary", wraps=True),
        )
        bind_text(self._lend, self._lend.setText, lambda: setting_title("lend"))
        self._lend.clicked.connect(self.lend_requested)
        caption = label("This computer", "secondary")
        left = column(caption, self._name, self._address, Stretch(1), spacing=1)
        right = column(self._lend, self._meaning, Stretch(1), spacing=2)
        row((left, 1), (right, 1), spacing=24, margins=(14, 10), on=self)

    def show_state(self, state: MachinesState) -> None:
        """Show what the engine knows of this computer, in the current language."""
        self._name.setText(one_line(state.name))
        self._address.setVisible(bool(state.address))
        self._address.setText(tr("Address: {address}", address=state.address))
        self._lend.setChecked(state.is_lent)
        self._meaning.setText(machine_labels.lending(state))
        self._lend.setAccessibleDescription(self._meaning.text())


class FirstUse(QFrame):
    """Instructions for the second computer, while none is paired."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "firstUse", "card")
        column(
            label("No other computer is paired yet", "strong", wraps=True),
            label(
                lambda: tr(
                    "1. On the second computer: start Upreel, open this page, keep it open, and "
                    "turn on: {lend}.",
                    lend=setting_title("lend"),
                ),
                wraps=True,
            ),
            label(
                "2. On this computer: press Pair next to its name below, or enter its address. "
                "Then compare six words on both screens.",
                wraps=True,
            ),
            spacing=6,
            margins=(14, 12),
            on=self,
        )


class MachineRow(QFrame):
    """A paired computer, with a button to forget it."""

    forget_requested = Signal(str)  # its fingerprint

    def __init__(self, machine: MachineInfo, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        name = machine.fingerprint
        named(self, f"machine-{name}")
        self.machine = machine
        self._name, self._about = elided(kind="strong"), elided(kind="secondary")
        self._work, self._icon, self._state = elided(kind="small"), label(), elided()
        forget = button(
            "Forget …",
            f"forget-{name}",
            says=lambda: tr("Forget {name}", name=self.machine.name),
            on=lambda: self.forget_requested.emit(name),
            auto_default=False,
        )
        self._why = NoticeLine()
        state = row(self._icon, (self._state, 1), spacing=6)
        _fill(self, (self._name, self._about, self._work), state, forget, self._why)
        self.show_machine(machine)
        bind(self, self._draw, theme=True)

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

    def _draw(self) -> None:
        shape, severity, text = machine_labels.state_of(self.machine)
        self._icon.setPixmap(pixmap(shape, colour_of(severity), 16))
        self._state.setText(text)


class FoundRow(QFrame):
    """A computer that waits to be paired, with a button to do so."""

    pair_requested = Signal(str)  # its address

    def __init__(self, found: FoundMachine, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, f"found-{found.address}")
        self.pair = button(
            "Pair",
            f"pair-{found.address}",
            says=lambda: tr("Pair with {name}", name=found.name),
            on=lambda: self.pair_requested.emit(found.address),
            auto_default=False,
        )
        texts = elided(lambda: found.name, "strong"), elided(lambda: found.address, "secondary")
        _fill(self, texts, row(), self.pair)


def _show_or_hide(label: ElidedLabel, text: str) -> None:
    label.setText(text)
    label.setVisible(bool(text))


def _fill(
    frame: QFrame,
    texts: tuple[QWidget, ...],
    state: QLayout,
    action: QPushButton,
    *below: QWidget,
) -> None:
    """Texts, a state and a button side by side in columns that all rows share."""
    middle = QWidget()
    middle.setFixedWidth(_STATE_WIDTH)
    middle.setLayout(state)
    action.setFixedWidth(_BUTTON_WIDTH)
    head = row((column(*texts, spacing=1), 1), middle, action, spacing=_GAP_IN_ROWS)
    column(head, *below, spacing=8, margins=(14, 10), on=frame)


class _Rows(QFrame):
    """A card of rows with rules between them; hidden while there are none."""

    def __init__(self) -> None:
        super().__init__()
        named(self, kind="card")
        self._column = column(spacing=0, margins=(0, 2), on=self)
        self.setVisible(False)

    def fill(self, rows: Iterable[QWidget]) -> None:
        clear_layout(self._column)
        for one in rows:
            if self._column.count():
                self._column.addWidget(rule())
            self._column.addWidget(one)
        self.setVisible(bool(self._column.count()))


class MachinesPage(Page):
    """Shows the model; emits the user's requests. Videos continue meanwhile."""

    pair_requested = Signal(str)  # an address
    forget_requested = Signal(str)  # a fingerprint
    lend_requested = Signal(bool)

    def __init__(self, model: MachinesModel, parent: QWidget | None = None) -> None:
        size, least = QSize(880, 600), QSize(720, 420)
        super().__init__("machinesPage", "Computers", parent, size=size, least=least)
        self._model = model
        self._rows: dict[str, MachineRow] = {}
        self._found: tuple[object, ...] | None = None
        self._found_rows: list[FoundRow] = []
        self._was_paired = False
        self._own, self._first_use = OwnCard(), FirstUse()
        self._news = named(NoticeLine(), "machinesNews")
        self._paired, self._waits = _Rows(), _Rows()
        self._address = named(QLineEdit(), "machineAddress")
        bind_text(
            self._address,
            self._address.setPlaceholderText,
            "Address of the other computer, e.g. 192.168.1.20",
        )
        bind_text(self._address, self._address.setAccessibleName, "Address of the other computer")
        self._pair = button(
            "Pair",
            "pairAddress",
            icon="add",
            says="Pair with this address",
            on=lambda: self.pair_requested.emit(self._address.text().strip()),
            auto_default=False,
        )
        self._foot = label(
            lambda: tr(
                "To use them for a video: More settings › {setting} › {choice}.",
                setting=setting_title("machines"),
                choice=choice_text("machines", "all"),
            ),
            "secondary",
            wraps=True,
        )
        self._lay_out()
        self._own.lend_requested.connect(self.lend_requested)
        self._address.textChanged.connect(self._enable)
        self._address.returnPressed.connect(self._pair.click)
        model.changed.connect(self._show)
        bind(self, self._show)

    def _lay_out(self) -> None:
        scrolled = named(QWidget(), "scrolled")
        column(
            self._own,
            self._news,
            self._first_use,
            self._paired,
            label("Pair another computer", "section"),
            self._waits,
            row((self._address, 1), self._pair, spacing=_GAP),
            Stretch(1),
            spacing=_GAP,
            margins=(0, 0, 12, 0),
            on=scrolled,
        )
        area = scroll_area(scrolled, says="Computers")
        # Enter in the field pairs: it closes nothing.
        close = button("Close", "closeMachines", on=self.close, auto_default=False)
        self.fill(
            label("Computers", "headline"),
            label(_LEAD, "secondary", wraps=True),
            (area, 1),
            row((self._foot, 1), STRETCH, close, spacing=_GAP),
            focus=area,
        )

    def _show(self) -> None:
        model = self._model
        state = model.state or MachinesState()
        self._own.setVisible(model.state is not None)
        self._own.show_state(state)
        self._first_use.setVisible(model.state is not None and not state.machines)
        self._foot.setVisible(bool(state.machines))
        self._show_news(state)
        self._show_paired(state)
        self._show_found(state)
        self._enable()

    def _show_news(self, state: MachinesState) -> None:
        model = self._model
        if model.paired is not None and not self._was_paired:
            self._address.clear()
        self._was_paired = model.paired is not None
        self._news.setVisible(bool(model.problem or model.paired or state.problem))
        if model.problem is not None:
            self._news.show_message("refusal", *machine_labels.problem(model.problem))
        elif model.paired is not None:
            self._news.show_message("good", *machine_labels.paired(*model.paired))
        elif state.problem is not None:
            self._news.show_message("warning", text(state.problem), text(state.problem.hint))

    def _show_paired(self, state: MachinesState) -> None:
        names = [machine.fingerprint for machine in state.machines]
        if names != list(self._rows):
            self._rows = {one.fingerprint: MachineRow(one) for one in state.machines}
            for one in self._rows.values():
                one.forget_requested.connect(self.forget_requested)
            self._paired.fill(self._rows.values())
        for machine in state.machines:
            self._rows[machine.fingerprint].show_machine(machine)

    def _show_found(self, state: MachinesState) -> None:
        if state.found != self._found:
            self._found = state.found
            self._found_rows = [FoundRow(one) for one in state.found]
            for one in self._found_rows:
                one.pair_requested.connect(self.pair_requested)
            self._waits.fill(self._found_rows)
        for one in self._found_rows:
            one.pair.setEnabled(not self._model.is_running)

    def _enable(self) -> None:
        has_text = bool(self._address.text().strip())
        self._pair.setEnabled(has_text and not self._model.is_running)


def machines_line() -> PageLine:
    """The line among the settings that opens the page."""
    return PageLine(
        "machine",
        title="Computers",
        explanation="Pair computers on your network to process videos together.",
        text="Show …",
        says=lambda: tr("{text}: Computers", text=tr("Show …")),
    )
