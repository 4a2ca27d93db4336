"""One thing that is or can be installed, its row, and the page of such rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from PySide6.QtCore import QElapsedTimer, QSize, Qt, Signal
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QMenu,
    QPushButton,
    QScrollArea,
    QToolButton,
    QWidget,
)

from app import labels
from app.engine_messages import error_title, hint, text
from app.i18n import mark, tr
from app.state.tasks_model import TaskState
from app.theme.icons import icon, pixmap
from app.widgets.layouts import MIDDLE, RIGHT, STRETCH, Part, column, row
from app.widgets.meters import ProgressLine
from app.widgets.notice_line import NoticeLine, colour_of
from app.widgets.page import Page
from app.widgets.parts import bind_text, button, elided, label, named
from app.widgets.plain import Label, set_tip
from engine.core.errors import ErrorInfo
from engine.core.units import bytes_text

GAP, MORE_WIDTH = 12, 36
BOTTOM = Qt.AlignmentFlag.AlignBottom
ACTIONS = {  # requests of buttons, with their texts
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
    "convert": mark("Convert …"),
    "verify": mark("Verify"),
    "folder": mark("Show in folder"),
    "remove": mark("Remove …"),
}


class Standing(NamedTuple):
    """State of something in words, with the icon and the severity that colours it."""

    icon: str
    severity: str
    text: str


class Message(NamedTuple):
    """Contents of a `NoticeLine`, and what can be done about it."""

    severity: str = "info"
    title: str = ""
    text: str = ""
    offers: tuple[str, ...] = ()  # names of buttons, the likely one first


@dataclass(frozen=True, slots=True, kw_only=True)
class Installable:
    """One thing that is or can be installed, in the words of its row."""

    id: str
    title: str
    about: str
    full_title: str  # can stand alone: for the menu and its tip
    button_for: str  # follows the text of the button for screen readers
    place: str = ""  # a line about where it is
    facts: tuple[tuple[str, str], ...] = ()  # texts of further columns, with their tool tips
    standing: Standing
    action: str = ""  # request of the button, from `ACTIONS`; "" for no button
    can_act: bool = True
    menu: Mapping[str, bool] = field(default_factory=dict)  # entries, with whether each is possible
    task: TaskState | None = None  # running: its figures are shown
    problem: Message | None = None


class Widths(NamedTuple):
    """Widths of the columns after the titles, px."""

    facts: tuple[int, ...]
    state: int
    button: int
    more: int = MORE_WIDTH  # width of the menu's button


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


def show_message(line: NoticeLine, said: Message | None) -> None:
    """Show a message in a line, or hide it for None."""
    line.setVisible(said is not None)
    if said is not None:
        line.show_message(said.severity, said.title, said.text)


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
        self._title, self._about = elided(kind="strong"), elided(kind="secondary")
        self._place = elided(kind="secondary", mode=Qt.TextElideMode.ElideMiddle)
        self._facts = [label(kind="secondary" if at else "") for at in range(len(widths.facts))]
        for fact, width in zip(self._facts, widths.facts, strict=True):
            fact.setFixedWidth(width)
        for fact in self._facts[:1]:
            fact.setAlignment(RIGHT | MIDDLE)
        self._icon, self._state = label(), elided()
        state = QWidget()
        state.setFixedWidth(widths.state)
        row(self._icon, (self._state, 1), spacing=6, on=state)
        self._button = button(name=f"do-{name}", kind="cell", on=self._act)
        self._more = named(QToolButton(), f"more-{name}", "more")
        for control, width in ((self._button, widths.button), (self._more, widths.more)):
            control.setFixedWidth(width)
            policy = control.sizePolicy()
            policy.setRetainSizeWhenHidden(True)
            control.setSizePolicy(policy)
        menu = QMenu(self)
        self._entries = {entry: menu.addAction("") for entry in _MENU}
        for entry, action in self._entries.items():
            action.triggered.connect(
                lambda _=False, entry=entry: self.requested.emit(entry, self.id)
            )
        self._more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._more.setMenu(menu)
        self._busy, self._problem = ProgressLine(), named(NoticeLine(), f"problem-{name}")
        texts = column(self._title, self._about, self._place, spacing=1)
        columns = row(
            (texts, 1),
            *(*self._facts, state, self._button, self._more),
            MORE_WIDTH - widths.more,
            spacing=GAP,
        )
        column(columns, self._busy, self._problem, spacing=8, margins=(14, 10, 8, 10), on=self)
        self._busy.hide()
        self._problem.hide()

    def show_item(self, item: Installable) -> None:
        """Show everything again."""
        self._title.setText(item.title)
        self._about.setText(item.about)
        self._place.setText(item.place)
        self._place.setVisible(bool(item.place))
        for part, (fact, tip) in zip(self._facts, item.facts, strict=True):
            part.setText(fact)
            set_tip(part, tip)
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
        show_message(self._problem, item.problem)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rows in a card, below a title and a sentence where there are some."""

    title: str = ""
    about: str = ""
    items: tuple[Installable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSpec:
    """Properties of a page; texts are English."""

    name: str  # prefix of the names of objects
    title: str
    file: str  # button that asks for a file
    foot: str  # sentences below the rows
    foot_spacing: int = GAP  # px between these and the buttons
    widths: Widths
    size: tuple[int, int]  # at first, px
    least: tuple[int, int]


class InstallsPage(Page):
    """A page of rows, which stays open while videos run.

    Subclasses add parts, lay out, and bind a method that shows everything.
    """

    # An action and the id of its row; of the page itself: "refresh" and "file", and "".
    requested = Signal(str, str)

    def __init__(self, spec: PageSpec, parent: QWidget | None) -> None:
        size, least = QSize(*spec.size), QSize(*spec.least)
        super().__init__(f"{spec.name}Dialog", spec.title, parent, size=size, least=least)
        self._spec = spec
        self._rows: dict[str, InstallableRow] = {}
        self._groups: list[tuple[tuple[str, ...], QWidget, tuple[Label, Label]]] = []
        self._room = label(kind="secondary")
        self._file = self._ask_button("file", spec.file, "folder")
        self._head = row(
            label(spec.title, "headline"),
            (self._room, 0, BOTTOM),
            STRETCH,
            self._ask_button("refresh", mark("Refresh"), "retry"),
            self._file,
            spacing=GAP,
        )
        self._foot = label(spec.foot, "secondary", wraps=True)
        scrolled = named(QWidget(), "scrolled")
        self._inside = column(STRETCH, spacing=16, margins=(0, 0, 12, 0), on=scrolled)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(scrolled)
        bind_text(self._scroll, self._scroll.setAccessibleName, spec.title)

    def lay_out(
        self,
        above: Sequence[Part],
        below: Sequence[Part] = (),
        buttons: Sequence[QWidget] = (),
    ) -> None:
        """Put the parts of a subclass among those of every page.

        Args:
            above: Between the title and the rows.
            below: Between the rows and the foot.
            buttons: In the foot, before Close.
        """
        close = button("Close", f"{self._spec.name}Close", on=self.close)
        close.setDefault(True)  # else Enter would press the first button: gigabytes
        ends = ((part, 0, BOTTOM) for part in (*buttons, close))
        foot = row((self._foot, 1), *ends, spacing=self._spec.foot_spacing)
        parts = (self._head, *above, (self._scroll, 1), *below, foot)
        self.fill(*parts, focus=self._scroll)

    def _ask_button(self, name: str, text: str, icon: str) -> QPushButton:
        """A button of the page itself."""
        return button(
            lambda: tr(text),
            f"{self._spec.name}{name.capitalize()}",
            icon=icon,
            on=lambda: self.requested.emit(name, ""),
        )

    def show_room(self, free_mb: float | None) -> None:
        """Free space, MB; None while unknown."""
        size = bytes_text(free_mb * 1e6) if free_mb is not None else ""
        self._room.setText(tr("{size} free on disk", size=size) if size else "")

    def show_groups(self, groups: Sequence[Group]) -> list[str]:
        """Show rows; they are made again only if the listed items have changed.

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
            for part, said in zip(texts, (group.title, group.about), strict=True):
                part.setText(said)
                part.setVisible(bool(said))
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
        title, about = label(kind="title"), label(kind="secondary")
        card, holder = named(QFrame(), kind="card"), QWidget()
        inside = column(margins=(0, 2), spacing=0, on=card)
        for item in group.items:
            if inside.count():
                inside.addWidget(named(QFrame(), kind="rule"))
            shown = self._rows[item.id] = InstallableRow(item.id, self._spec.widths)
            shown.requested.connect(self.requested)
            inside.addWidget(shown)
        column(row(title, (about, 1, BOTTOM), spacing=10), card, spacing=6, on=holder)
        self._inside.insertWidget(self._inside.count() - 1, holder)
        return tuple(item.id for item in group.items), holder, (title, about)
