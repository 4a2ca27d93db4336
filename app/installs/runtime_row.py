"""One runtime of the page: what it is, its state, and what can be done with it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.i18n import mark, tr
from app.installs import runtime_labels
from app.installs.model_labels import progress
from app.state.runtimes_model import is_known
from app.state.tasks_model import TaskState
from app.theme.icons import icon, pixmap
from app.widgets.controls import ElidedLabel
from app.widgets.meters import ProgressLine
from app.widgets.notice_line import NoticeLine, colour_of
from app.widgets.plain import Label, set_tip
from engine.protocol.runtime_state import RuntimeState

STATE_WIDTH, BUTTON_WIDTH, MORE_WIDTH, GAP = 172, 112, 36, 12
_TEXTS = {
    "download": mark("Download"),
    "continue": mark("Continue"),
    "use": mark("Use"),
    "repair": mark("Repair"),
    "pause": mark("Pause"),
    "cancel": mark("Cancel"),
    "remove": mark("Remove …"),
    "folder": mark("Show in folder"),
}


def main_action(state: RuntimeState, task: TaskState | None) -> str:
    """Name of the one button; "" where there is nothing to do."""
    if task is not None and task.runs:
        return {"download": "pause", "remove": "", "use": ""}.get(task.phase, "cancel")
    if not state.suits_program or state.state == "busy":
        return ""
    if state.state == "here":
        return "" if state.is_chosen else "use"
    if state.state == "broken":
        return "repair" if is_known(state) else "remove"
    if not state.suits_card:
        return ""
    return "continue" if state.state == "partial" else "download"


class RuntimeRow(QFrame):
    """Shows one runtime; emits the requests of the user."""

    requested = Signal(str, str)  # a name of `_TEXTS`; id of the runtime

    def __init__(self, runtime: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.runtime = runtime
        self.setObjectName(f"runtime-row-{runtime}")
        self._action = ""
        self._shown: tuple[RuntimeState, TaskState | None] | None = None
        self._name, self._about = ElidedLabel(), ElidedLabel()
        self._icon, self._state = Label(), ElidedLabel()
        self._button, self._more, self._menu = QPushButton(), QToolButton(), QMenu(self)
        self._entries = {name: QAction(self) for name in ("folder", "remove")}
        self._busy, self._problem = ProgressLine(), NoticeLine()
        self._lay_out()
        self._button.clicked.connect(lambda: self.requested.emit(self._action, self.runtime))
        for name, entry in self._entries.items():
            entry.triggered.connect(
                lambda _=False, name=name: self.requested.emit(name, self.runtime)
            )

    def show_state(self, state: RuntimeState, task: TaskState | None, *, is_idle: bool) -> None:
        """Show the state of a runtime.

        Args:
            state: State from the list of the engine.
            task: Task on this one, or how it ended.
            is_idle: Nothing is done to any runtime: a request would be accepted.
        """
        self._shown = (state, task)
        self._name.setText(runtime_labels.title_of(state))
        self._about.setText(runtime_labels.about(state))
        shape, severity, text = runtime_labels.state_of(state, task)
        self._icon.setPixmap(pixmap(shape, colour_of(severity), 16))
        self._state.setText(text)
        self._action = main_action(state, task)
        self._button.setVisible(bool(self._action))
        self._button.setEnabled(is_idle or self._action in ("pause", "cancel"))
        if self._action:
            text = tr(_TEXTS[self._action])
            self._button.setText(text)
            self._button.setAccessibleName(f"{text}: {runtime_labels.title_of(state)}")
        self._show_menu(state, is_idle=is_idle)
        self.show_progress(task)
        self._show_problem(state, task)

    def show_progress(self, task: TaskState | None) -> None:
        """Only the figures: they come several times a second."""
        is_shown = task is not None and task.runs and not task.waits
        self._busy.setVisible(is_shown)
        if task is not None and is_shown:
            self._busy.show_progress(task.share, progress(task))

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme; texts come again from the page."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and self._shown is not None:
            shape, severity, _ = runtime_labels.state_of(*self._shown)
            self._icon.setPixmap(pixmap(shape, colour_of(severity), 16))
            self._more.setIcon(icon("more"))

    def _show_menu(self, state: RuntimeState, *, is_idle: bool) -> None:
        has_some = state.path is not None or state.done_bytes > 0
        able = {
            "folder": state.path is not None,
            "remove": is_idle and has_some and not state.is_used,
        }
        for name, entry in self._entries.items():
            entry.setText(tr(_TEXTS[name]))
            entry.setEnabled(able[name])
        self._more.setVisible(state.id != runtime_labels.OWN)
        self._more.setEnabled(any(able.values()))
        self._more.setIcon(icon("more"))
        more = tr("More for {name}", name=runtime_labels.title_of(state))
        set_tip(self._more, more)
        self._more.setAccessibleName(more)

    def _show_problem(self, state: RuntimeState, task: TaskState | None) -> None:
        """An error with its hint, or why an installed one is not used."""
        error = task.error if task is not None else None
        is_broken = state.state == "broken" and task is None
        self._problem.setVisible(error is not None or is_broken)
        if error is not None:
            self._problem.show_message("refusal", *runtime_labels.problem(error))
        elif is_broken:
            self._problem.show_message("warning", runtime_labels.reason(state))

    def _lay_out(self) -> None:
        self._name.setProperty("kind", "strong")
        self._about.setProperty("kind", "secondary")
        self._more.setProperty("kind", "more")
        self._more.setObjectName(f"runtime-more-{self.runtime}")
        self._more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._menu.addActions(list(self._entries.values()))
        self._more.setMenu(self._menu)
        self._button.setObjectName(f"runtime-do-{self.runtime}")
        texts = QVBoxLayout()
        texts.setSpacing(1)
        texts.addWidget(self._name)
        texts.addWidget(self._about)
        head = QHBoxLayout()
        head.setSpacing(GAP)
        head.addLayout(texts, 1)
        head.addWidget(_fixed(STATE_WIDTH, self._icon, self._state))
        head.addWidget(_fixed(BUTTON_WIDTH, self._button))
        head.addWidget(_fixed(MORE_WIDTH, self._more))
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 8, 10)
        column.setSpacing(8)
        column.addLayout(head)
        for part in (self._busy, self._problem):
            column.addWidget(part)
            part.setVisible(False)


def _fixed(width: int, *parts: QWidget) -> QWidget:
    """Parts side by side in a column of one width; the last one takes what is left."""
    holder = QWidget()
    holder.setFixedWidth(width)
    row = QHBoxLayout(holder)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(6)
    for part in parts[:-1]:
        row.addWidget(part)
    row.addWidget(parts[-1], 1)
    return holder
