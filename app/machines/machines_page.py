"""The page of other computers: this one, those that are paired, those that wait to be."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.engine_messages import choice_text, setting_title, text
from app.i18n import tr
from app.machines import machine_labels
from app.machines.machine_row import FoundRow, MachineRow
from app.state.machines_model import MachinesModel
from app.theme.icons import icon
from app.widgets.controls import Switch, Themed
from app.widgets.layouts import clear_layout
from app.widgets.notice_line import NoticeLine, PageLine
from app.widgets.plain import Label
from engine.core.plain_text import one_line
from engine.protocol.machines import MachinesState

_GAP = 10  # px


class OwnCard(Themed, QFrame):
    """This computer: its name, its address to be typed elsewhere, and the switch that lends it."""

    lend_requested = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("ownMachine")
        self.setProperty("kind", "card")
        self._state = MachinesState()
        self._caption, self._name, self._address, self._meaning = (Label() for _ in range(4))
        self._lend = Switch()
        self._lend.setObjectName("lendMachine")
        self._lend.clicked.connect(self.lend_requested)
        for label in (self._caption, self._address, self._meaning):
            label.setProperty("kind", "secondary")
        self._name.setProperty("kind", "title")
        self._address.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._meaning.setWordWrap(True)
        left, right = QVBoxLayout(), QVBoxLayout()
        for label in (self._caption, self._name, self._address):
            left.addWidget(label)
        right.addWidget(self._lend)
        right.addWidget(self._meaning)
        for column in (left, right):
            column.addStretch(1)
        left.setSpacing(1)
        right.setSpacing(2)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 10, 14, 10)
        row.setSpacing(24)
        row.addLayout(left, 1)
        row.addLayout(right, 1)

    def show_state(self, state: MachinesState) -> None:
        """Show what the engine knows of this computer."""
        self._state = state
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        state = self._state
        self._caption.setText(tr("This computer"))
        self._name.setText(one_line(state.name))
        self._address.setVisible(bool(state.address))
        self._address.setText(tr("Address: {address}", address=state.address))
        self._lend.setText(setting_title("lend"))
        self._lend.setChecked(state.is_lent)
        self._meaning.setText(machine_labels.lending(state))
        self._lend.setAccessibleDescription(self._meaning.text())


class FirstUse(Themed, QFrame):
    """Instructions for the second computer, while none is paired."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("firstUse")
        self.setProperty("kind", "card")
        self._lines = [Label() for _ in range(3)]
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 12)
        column.setSpacing(6)
        for line in self._lines:
            line.setWordWrap(True)
            column.addWidget(line)
        self._lines[0].setProperty("kind", "strong")
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        head, first, second = self._lines
        head.setText(tr("No other computer is paired yet"))
        lend = setting_title("lend")
        first.setText(
            tr(
                "1. On the second computer: start Upreel, open this page, keep it open, and turn "
                "on: {lend}.",
                lend=lend,
            )
        )
        second.setText(
            tr(
                "2. On this computer: press Pair next to its name below, or enter its address. "
                "Then compare six words on both screens."
            )
        )


class MachinesPage(Themed, QDialog):
    """Shows the model; emits the user's requests. Films go on meanwhile."""

    pair_requested = Signal(str)  # an address
    forget_requested = Signal(str)  # a fingerprint
    lend_requested = Signal(bool)

    def __init__(self, model: MachinesModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("machinesPage")
        self.setMinimumSize(720, 420)
        self.resize(880, 600)
        self._model = model
        self._rows: dict[str, MachineRow] = {}
        self._found: tuple[object, ...] | None = None
        self._found_rows: list[FoundRow] = []
        self._was_paired = False
        self._title, self._lead, self._pairing, self._foot = (Label() for _ in range(4))
        self._own, self._first_use = OwnCard(), FirstUse()
        self._news = NoticeLine()
        self._paired, self._waits = _Rows(), _Rows()
        self._address, self._pair, self._close = QLineEdit(), QPushButton(), QPushButton()
        self._name_parts()
        self._lay_out()
        self._own.lend_requested.connect(self.lend_requested)
        self._address.textChanged.connect(self._enable)
        self._address.returnPressed.connect(self._pair.click)
        self._pair.clicked.connect(lambda: self.pair_requested.emit(self._address.text().strip()))
        self._close.clicked.connect(self.close)
        model.changed.connect(self._show)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self.setWindowTitle(tr("Computers"))
        self._title.setText(tr("Computers"))
        self._scroll.setAccessibleName(tr("Computers"))
        self._lead.setText(
            tr(
                "Several computers on your network can process one video together. Pairing gives "
                "the other computer the right to run programs on this one: pair only your own "
                "computers."
            )
        )
        self._pairing.setText(tr("Pair another computer"))
        self._address.setPlaceholderText(tr("Address of the other computer, e.g. 192.168.1.20"))
        self._address.setAccessibleName(tr("Address of the other computer"))
        self._pair.setText(tr("Pair"))
        self._pair.setAccessibleName(tr("Pair with this address"))
        self._pair.setIcon(icon("add", size=16))
        self._foot.setText(
            tr(
                "To use them for a video: More settings, {setting}: {choice}.",
                setting=setting_title("machines"),
                choice=choice_text("machines", "all"),
            )
        )
        self._close.setText(tr("Close"))
        self._show()

    # Showing

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
        if model.paired and not self._was_paired:
            self._address.clear()
        self._was_paired = bool(model.paired)
        self._news.setVisible(bool(model.problem or model.paired or state.problem))
        if model.problem is not None:
            self._news.show_message("refusal", *machine_labels.problem(model.problem))
        elif model.paired:
            self._news.show_message("good", tr("Paired with {name}.", name=model.paired))
        elif state.problem is not None:
            self._news.show_message("warning", text(state.problem), text(state.problem.hint))

    def _show_paired(self, state: MachinesState) -> None:
        names = [machine.fingerprint for machine in state.machines]
        if names != list(self._rows):
            self._rows = {one.fingerprint: MachineRow(one) for one in state.machines}
            for row in self._rows.values():
                row.forget_requested.connect(self.forget_requested)
            self._paired.fill(self._rows.values())
        for machine in state.machines:
            self._rows[machine.fingerprint].show_machine(machine)

    def _show_found(self, state: MachinesState) -> None:
        if state.found != self._found:
            self._found = state.found
            self._found_rows = [FoundRow(one) for one in state.found]
            for row in self._found_rows:
                row.pair_requested.connect(self.pair_requested)
            self._waits.fill(self._found_rows)
        for row in self._found_rows:
            row.show_found(is_idle=not self._model.is_running)

    def _enable(self) -> None:
        has_text = bool(self._address.text().strip())
        self._pair.setEnabled(has_text and not self._model.is_running)

    def _name_parts(self) -> None:
        self._title.setProperty("kind", "headline")
        for label in (self._lead, self._foot):
            label.setProperty("kind", "secondary")
            label.setWordWrap(True)
        self._pairing.setProperty("kind", "section")
        self._news.setObjectName("machinesNews")
        self._address.setObjectName("machineAddress")
        self._pair.setObjectName("pairAddress")
        self._pair.setAutoDefault(False)
        self._close.setObjectName("closeMachines")
        self._close.setAutoDefault(False)  # Enter in the field pairs

    def _lay_out(self) -> None:
        typed = QHBoxLayout()
        typed.setSpacing(_GAP)
        typed.addWidget(self._address, 1)
        typed.addWidget(self._pair)
        scrolled = QWidget()
        scrolled.setObjectName("scrolled")
        inner = QVBoxLayout(scrolled)
        inner.setContentsMargins(0, 0, 12, 0)
        inner.setSpacing(_GAP)
        for part in (
            self._own,
            self._news,
            self._first_use,
            self._paired,
            self._pairing,
            self._waits,
        ):
            inner.addWidget(part)
        inner.addLayout(typed)
        inner.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(scrolled)
        foot = QHBoxLayout()
        foot.setSpacing(_GAP)
        foot.addWidget(self._foot, 1)
        foot.addStretch()
        foot.addWidget(self._close)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 16, 20, 16)
        column.setSpacing(_GAP)
        column.addWidget(self._title)
        column.addWidget(self._lead)
        column.addWidget(self._scroll, 1)
        column.addLayout(foot)
        self._scroll.setFocus(Qt.FocusReason.OtherFocusReason)  # no focus ring before the first tab


class MachinesLine(PageLine):
    """The line among the settings that opens the page."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("machine", parent)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self.name.setText(tr("Computers"))
        self.explanation.setText(tr("Pair computers on your network to process videos together."))
        self.button.setText(tr("Show …"))
        self.button.setAccessibleName(tr("{text}: Computers", text=tr("Show …")))


class _Rows(QFrame):
    """A card of rows with rules between them; hidden while there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("kind", "card")
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 2, 0, 2)
        self._column.setSpacing(0)
        self.setVisible(False)

    def fill(self, rows: Iterable[QWidget]) -> None:
        clear_layout(self._column)
        for row in rows:
            if self._column.count():
                rule = QFrame()
                rule.setProperty("kind", "rule")
                self._column.addWidget(rule)
            self._column.addWidget(row)
        self.setVisible(bool(self._column.count()))
