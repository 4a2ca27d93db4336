"""One thing that is or can be installed, its row, and the page of such rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from PySide6.QtCore import QElapsedTimer, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QApplication,
    QDialog,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLayout,
    QMenu,
    QPushButton,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app import labels
from app.engine_messages import hint, text
from app.i18n import mark, tr
from app.state.tasks_model import TaskState
from app.theme.icons import icon, pixmap
from app.widgets.controls import ElidedLabel, Themed
from app.widgets.error_view import error_title
from app.widgets.meters import ProgressLine
from app.widgets.notice_line import NoticeLine, colour_of
from app.widgets.plain import Label, set_tip
from engine.core.errors import ErrorInfo
from engine.core.units import bytes_text

GAP, MORE_WIDTH = 12, 36
ACTIONS = {  # what buttons request, and their texts
    "download": mark("Download"),
    "continue": mark("Continue"),
    "again": mark("Download again"),
    "retry": mark("Try again"),
    "repair": mark("Repair"),
    "add": mark("Add …"),
    "use": mark("Use"),
    "verify": mark("Verify"),
    "remove": mark("Remove …"),
    "stop": mark("Stop"),
    "pause": mark("Pause"),
    "cancel": mark("Cancel"),
}
_MENU = {
    "use": mark("Use for this video"),
    "verify": mark("Verify"),
    "folder": mark("Show in folder"),
    "remove": mark("Remove …"),
}


class Standing(NamedTuple):
    """State of something in words, with the icon and the severity that colours it."""

    icon: str
    severity: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Installable:
    """One thing that is or can be installed, in the words of its row."""

    id: str
    title: str
    about: str
    full_title: str  # can stand alone: for screen readers and the menu
    button_for: str  # the same, after the text of the button
    place: str = ""  # a line about where it is
    facts: tuple[tuple[str, str], ...] = ()  # texts of further columns, with their tool tips
    standing: Standing
    action: str = ""  # of the button, from `ACTIONS`; "" for no button
    can_act: bool = True
    menu: Mapping[str, bool] = field(default_factory=dict)  # entries, with whether each is possible
    task: TaskState | None = None  # running: its figures are shown
    problem: tuple[str, ...] = ()  # severity, sentence and hint


class Widths(NamedTuple):
    """Widths of the columns after the titles, px."""

    facts: tuple[int, ...]
    state: int
    button: int
    more: int = MORE_WIDTH  # of that column's width


def progress(task: TaskState) -> str:
    """Megabytes, speed and time left in one line."""
    done = round(task.done)
    if task.total:
        parts = [tr("{done} of {total} MB", done=done, total=round(task.total))]
    else:
        parts = [tr("{done} MB", done=done)]
    if task.per_second:
        parts.append(tr("{speed} MB/s", speed=f"{task.per_second:.1f}"))
    if task.seconds_left:
        parts.append(tr("{time} left", time=labels.duration(task.seconds_left)))
    return " · ".join(parts)


def problem(error: ErrorInfo) -> tuple[str, str]:
    """Title of an error, and below it the engine's sentence and what to do, a line each."""
    return error_title(error), "\n".join(filter(None, (text(error), hint(error))))


class DoubleClick:
    """Tells the second half of a double click, which must not stop what the first has begun."""

    def __init__(self) -> None:
        self._since = QElapsedTimer()  # the last press

    def stops(self, action: str) -> bool:
        """Note a press; True where it is such a second half and would stop something."""
        is_second = self._since.isValid() and not self._since.hasExpired(
            QApplication.doubleClickInterval()
        )
        self._since.start()
        return is_second and action in ("stop", "pause", "cancel")


class InstallableRow(QFrame):
    """Title, columns, button and menu; below them the progress, and what is wrong."""

    requested = Signal(str, str)  # an action or an entry of the menu; id

    def __init__(self, name: str, widths: Widths) -> None:
        super().__init__()
        self.id = name
        self.setObjectName(f"row-{name}")
        self._action, self._clicks = "", DoubleClick()
        self._title, self._about = ElidedLabel(), ElidedLabel()
        self._place = ElidedLabel(Qt.TextElideMode.ElideMiddle)
        self._facts = [Label() for _ in widths.facts]
        self._icon, self._state = Label(), ElidedLabel()
        self._button, self._more, self._menu = QPushButton(), QToolButton(), QMenu(self)
        self._entries = {entry: QAction(self) for entry in _MENU}
        self._busy, self._problem = ProgressLine(), NoticeLine()
        self._lay_out(widths)
        self._button.clicked.connect(self._act)
        for entry, action in self._entries.items():
            action.triggered.connect(
                lambda _=False, entry=entry: self.requested.emit(entry, self.id)
            )

    def show_item(self, item: Installable) -> None:
        """Show everything anew."""
        self._title.setText(item.title)
        self._about.setText(item.about)
        self._place.setText(item.place)
        self._place.setVisible(bool(item.place))
        for label, (fact, tip) in zip(self._facts, item.facts, strict=True):
            label.setText(fact)
            set_tip(label, tip)
        shape, severity, said = item.standing
        self._icon.setPixmap(pixmap(shape, colour_of(severity), 16))
        self._state.setText(said)
        self._action = item.action
        self._button.setVisible(bool(item.action))
        self._button.setEnabled(item.can_act)
        if item.action:
            action = tr(ACTIONS[item.action])
            self._button.setText(action)
            self._button.setAccessibleName(f"{action}: {item.button_for}")
        self._show_menu(item)
        self.show_progress(item.task)
        self._problem.setVisible(bool(item.problem))
        if item.problem:
            self._problem.show_message(*item.problem)

    def show_progress(self, task: TaskState | None) -> None:
        """Only the figures: they come several times a second."""
        is_shown = task is not None and task.runs and not task.waits
        self._busy.setVisible(is_shown)
        if task is not None and is_shown:
            self._busy.show_progress(task.share, progress(task))

    def focus_button(self) -> None:
        """Take the keyboard focus."""
        self._button.setFocus(Qt.FocusReason.OtherFocusReason)

    def _act(self) -> None:
        if not self._clicks.stops(self._action):
            self.requested.emit(self._action, self.id)

    def _show_menu(self, item: Installable) -> None:
        for name, entry in self._entries.items():
            entry.setText(tr(_MENU[name]))
            entry.setVisible(name in item.menu)
            entry.setEnabled(item.menu.get(name, False))
        self._more.setVisible(bool(item.menu))
        self._more.setEnabled(any(item.menu.values()))
        self._more.setIcon(icon("more"))
        more = tr("More for {name}", name=item.full_title)
        set_tip(self._more, more)
        self._more.setAccessibleName(more)

    def _lay_out(self, widths: Widths) -> None:
        self._title.setProperty("kind", "strong")
        for label in (self._about, self._place, *self._facts[1:]):
            label.setProperty("kind", "secondary")
        for label, width in zip(self._facts, widths.facts, strict=True):
            label.setFixedWidth(width)
        if self._facts:
            self._facts[0].setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        for control, name, width in (
            (self._button, "do", widths.button),
            (self._more, "more", widths.more),
        ):
            control.setObjectName(f"{name}-{self.id}")
            control.setFixedWidth(width)
            policy = control.sizePolicy()
            policy.setRetainSizeWhenHidden(True)
            control.setSizePolicy(policy)
        self._problem.setObjectName(f"problem-{self.id}")
        self._more.setProperty("kind", "more")
        self._more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._menu.addActions(list(self._entries.values()))
        self._more.setMenu(self._menu)
        state = QWidget()
        state.setFixedWidth(widths.state)
        inner = QHBoxLayout(state)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.setSpacing(6)
        inner.addWidget(self._icon)
        inner.addWidget(self._state, 1)
        texts = QVBoxLayout()
        texts.setSpacing(1)
        for label in (self._title, self._about, self._place):
            texts.addWidget(label)
        grid = QGridLayout()
        grid.setHorizontalSpacing(GAP)
        grid.setColumnStretch(0, 1)
        grid.addLayout(texts, 0, 0)
        for at, cell in enumerate((*self._facts, state, self._button)):
            grid.addWidget(cell, 0, at + 1)
        grid.addWidget(self._more, 0, grid.columnCount(), Qt.AlignmentFlag.AlignLeft)
        grid.setColumnMinimumWidth(grid.columnCount() - 1, MORE_WIDTH)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 8, 10)
        column.setSpacing(8)
        column.addLayout(grid)
        for part in (self._busy, self._problem):
            column.addWidget(part)
            part.setVisible(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rows in a card, below a title and a sentence where there are some."""

    title: str = ""
    about: str = ""
    items: tuple[Installable, ...]


class InstallsPage(Themed, QDialog):
    """A page of rows. Stays open while films run; subclasses add what stands above the rows.

    Args:
        name: Prefix of the names of objects.
        widths: Columns of the rows.
        parent: Window that it belongs to.
    """

    # An action and the id of its row; of the page itself: "refresh", "file", and "".
    requested = Signal(str, str)

    def __init__(self, name: str, widths: Widths, parent: QWidget | None) -> None:
        super().__init__(parent)
        self.setObjectName(f"{name}Dialog")
        self._widths = widths
        self._rows: dict[str, InstallableRow] = {}
        self._groups: list[tuple[tuple[str, ...], QWidget, tuple[Label, Label]]] = []
        self._title, self._room, self._foot = Label(), Label(), Label()
        self._again, self._file, self._close = QPushButton(), QPushButton(), QPushButton()
        for part, ending in (
            (self._again, "Refresh"),
            (self._file, "File"),
            (self._close, "Close"),
        ):
            part.setObjectName(f"{name}{ending}")
        self._close.setDefault(True)  # else Enter would press the first button: gigabytes
        self._close.clicked.connect(self.close)
        self._again.clicked.connect(lambda: self.requested.emit("refresh", ""))
        self._file.clicked.connect(lambda: self.requested.emit("file", ""))

    def retranslate_ui(self) -> None:
        """All texts in the current language; subclasses add theirs and show all rows again."""
        self._again.setText(tr("Refresh"))
        self._again.setIcon(icon("retry", size=16))
        self._file.setIcon(icon("folder", size=16))
        self._close.setText(tr("Close"))

    def show_room(self, free_mb: float | None) -> None:
        """Free space, MB; None while unknown."""
        size = bytes_text(free_mb * 1e6) if free_mb is not None else ""
        self._room.setText(tr("{size} free on disk", size=size) if size else "")

    def show_groups(self, groups: Sequence[Group]) -> list[str]:
        """Show rows; they are made anew only where other things are listed than before.

        Returns:
            Ids of rows that are new beside others.
        """
        before = set(self._rows)
        ids = [tuple(item.id for item in group.items) for group in groups]
        if ids != [known for known, _, _ in self._groups]:
            for _, holder, _ in self._groups:
                holder.hide()
                holder.deleteLater()
            self._rows = {}
            self._groups = [self._make_group(group) for group in groups]
            for _, holder, _ in self._groups:
                holder.show()  # now, not with the next event: a row may be revealed at once
        for group, (_, _, texts) in zip(groups, self._groups, strict=True):
            for label, said in zip(texts, (group.title, group.about), strict=True):
                label.setText(said)
                label.setVisible(bool(said))
            for item in group.items:
                self._rows[item.id].show_item(item)
        return [name for name in self._rows if name not in before] if before else []

    def show_progress(self, name: str, task: TaskState | None) -> bool:
        """Only the figures of one row; False where there is none."""
        row = self._rows.get(name)
        if row is not None:
            row.show_progress(task)
        return row is not None

    def _make_group(self, group: Group) -> tuple[tuple[str, ...], QWidget, tuple[Label, Label]]:
        title, about = Label(), Label()
        title.setProperty("kind", "title")
        about.setProperty("kind", "secondary")
        head = QHBoxLayout()
        head.setSpacing(10)
        head.addWidget(title)
        head.addWidget(about, 1, Qt.AlignmentFlag.AlignBottom)
        card = QFrame()
        card.setProperty("kind", "card")
        inside = QVBoxLayout(card)
        inside.setContentsMargins(0, 2, 0, 2)
        inside.setSpacing(0)
        for item in group.items:
            if inside.count():
                rule = QFrame()
                rule.setProperty("kind", "rule")
                inside.addWidget(rule)
            row = self._rows[item.id] = InstallableRow(item.id, self._widths)
            row.requested.connect(self.requested)
            inside.addWidget(row)
        holder = QWidget()
        column = QVBoxLayout(holder)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addLayout(head)
        column.addWidget(card)
        self._inside.insertWidget(self._inside.count() - 1, holder)
        return tuple(item.id for item in group.items), holder, (title, about)

    def lay_out(
        self,
        above: Sequence[QWidget | QLayout],
        *,
        heads: QWidget | None = None,
        buttons: Sequence[QWidget] = (),
        spacing: int,
    ) -> None:
        """Put the parts of a subclass among those of every page.

        Args:
            above: Between the title and the rows.
            heads: Names of the columns; they scroll with the rows.
            buttons: In the foot, before Close.
            spacing: Between the foot's sentence and the buttons, px.
        """
        self._title.setProperty("kind", "headline")
        for label in (self._room, self._foot):
            label.setProperty("kind", "secondary")
        self._foot.setWordWrap(True)
        head = QHBoxLayout()
        head.setSpacing(GAP)
        head.addWidget(self._title)
        head.addWidget(self._room, 0, Qt.AlignmentFlag.AlignBottom)
        head.addStretch(1)
        head.addWidget(self._again)
        head.addWidget(self._file)
        scrolled = QWidget()
        scrolled.setObjectName("scrolled")
        self._inside = QVBoxLayout(scrolled)
        self._inside.setContentsMargins(0, 0, 12, 0)
        self._inside.setSpacing(16)
        if heads is not None:
            self._inside.addWidget(heads)
        self._inside.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(scrolled)
        foot = QHBoxLayout()
        foot.setSpacing(spacing)
        foot.addWidget(self._foot, 1)
        for button in (*buttons, self._close):
            foot.addWidget(button, 0, Qt.AlignmentFlag.AlignBottom)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 16, 20, 16)
        column.setSpacing(10)
        column.addLayout(head)
        for part in above:
            if isinstance(part, QLayout):
                column.addLayout(part)
            else:
                column.addWidget(part)
        column.addWidget(self._scroll, 1)
        self._space = QWidget()  # where the rows are folded away
        self._space.hide()
        column.addWidget(self._space, 1)
        column.addLayout(foot)
        self._scroll.setFocus(Qt.FocusReason.OtherFocusReason)  # no focus ring before the first tab
