"""One file of the list: what it is, where it stands, and the button that helps."""

from __future__ import annotations

from PySide6.QtCore import QElapsedTimer, QEvent, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app import labels
from app.engine_messages import hint, text
from app.i18n import mark, tr
from app.models import model_labels
from app.state.model_file_row import Package, Standing, standing_of
from app.state.tasks_model import TaskState
from app.theme.icons import icon, pixmap
from app.widgets.controls import ElidedLabel
from app.widgets.meters import ShareBar
from app.widgets.notice_line import NoticeLine, colour_of
from engine.protocol.plan import Notice

SIZE_WIDTH, LICENCE_WIDTH, STATE_WIDTH, BUTTON_WIDTH, MORE_WIDTH = 72, 88, 168, 104, 36
GAP = 12
_ICONS = {
    Standing.MISSING: ("download", "info"),
    Standing.PARTIAL: ("pause", "info"),
    Standing.INCOMPLETE: ("warning", "warning"),
    Standing.DAMAGED: ("error", "refusal"),
    Standing.UNCHECKED: ("check", "info"),
    Standing.HERE: ("check", "good"),
    Standing.ELSEWHERE: ("info", "info"),
    Standing.WAITING: ("pause", "info"),
    Standing.BUSY: ("download", "good"),
    Standing.FAILED: ("error", "refusal"),
}
_MENU = {
    "use": mark("Use for the film"),
    "verify": mark("Check"),
    "folder": mark("Show in folder"),
    "remove": mark("Remove …"),
}


def main_action(package: Package, standing: Standing, task: TaskState | None) -> tuple[str, str]:
    """Name and text of the one button."""
    if standing.is_running:
        return "stop", tr("Stop")
    if standing is Standing.FAILED and task is not None:
        again = task.phase if task.phase in ("verify", "remove") else "get"
        return again, tr("Try again")
    if standing.is_usable:
        return (
            ("use", tr("Use")) if model_labels.can_redraw(package.main) else ("verify", tr("Check"))
        )
    if standing is Standing.PARTIAL:
        return "get", tr("Continue")
    return "get", tr("Get again") if standing is Standing.DAMAGED else tr("Get")


class DownloadRow(QFrame):
    """Shows one package; emits what the user wants done with it."""

    wanted = Signal(str, str)  # "get", "stop", "verify", "use", "remove", "folder"; id of the file

    def __init__(self, file: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.file = file
        self.setObjectName(f"model-file-{file}")
        self._action = "get"
        self._problem = NoticeLine()
        self._problem.setObjectName(f"problem-{file}")
        self._shown: tuple[Package, TaskState | None, Notice | None] | None = None
        self._name, self._words = ElidedLabel(), ElidedLabel()
        self._place = ElidedLabel(Qt.TextElideMode.ElideMiddle)
        self._size, self._licence = QLabel(), QLabel()
        self._icon, self._state = QLabel(), ElidedLabel()
        self._button, self._more = QPushButton(), QToolButton()
        self._button.setObjectName(f"get-{file}")
        self._more.setObjectName(f"more-{file}")
        self._menu = QMenu(self)
        self._entries = {name: QAction(self) for name in _MENU}
        self._bar, self._progress = ShareBar(), QLabel()
        self._busy = QWidget()
        self._lay_out()
        self._since = QElapsedTimer()  # the last press
        self._button.clicked.connect(self._act)
        for name, entry in self._entries.items():
            entry.triggered.connect(lambda _=False, name=name: self.wanted.emit(name, self.file))

    def show_package(self, package: Package, task: TaskState | None, notice: Notice | None) -> None:
        """Show where a file and its companions stand."""
        self._shown = (package, task, notice)
        file, standing = package.main, standing_of(package, task)
        self._name.setText(model_labels.file_title(file))
        self._words.setText(model_labels.file_words(file))
        self._size.setText(model_labels.size(file))
        self._licence.setText(file.licence or "–")
        self._licence.setToolTip(file.repository)
        self._say_place(package)
        shape, severity = _ICONS[standing]
        self._icon.setPixmap(pixmap(shape, colour_of(severity), 16))
        self._state.setText(model_labels.standing(package, standing, task))
        self._action, text = main_action(package, standing, task)
        self._button.setText(text)
        self._button.setAccessibleName(f"{text}: {model_labels.full_title(file)}")
        self._button.setEnabled(standing is not Standing.ELSEWHERE)
        self._show_menu(package, standing)
        self.show_progress(task if standing.is_running else None)
        self._show_problem(task, notice)

    def show_progress(self, task: TaskState | None) -> None:
        """Only the figures: they come several times a second."""
        is_shown = task is not None and not task.waits
        self._busy.setVisible(is_shown)
        if task is not None and is_shown:
            self._bar.set_shares(task.share)
            self._progress.setText(model_labels.progress(task))
            self._bar.setAccessibleName(self._progress.text())

    def focus_button(self) -> None:
        """The keyboard goes on here."""
        self._button.setFocus(Qt.FocusReason.OtherFocusReason)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language and the theme."""
        super().changeEvent(event)
        wanted = (QEvent.Type.LanguageChange, QEvent.Type.StyleChange)
        if event.type() in wanted and self._shown is not None:
            self.show_package(*self._shown)

    def _act(self) -> None:
        """Do what the button says; the second half of a double click does not stop what began."""
        is_double = self._since.isValid() and not self._since.hasExpired(
            QApplication.doubleClickInterval()
        )
        self._since.start()
        if not (is_double and self._action == "stop"):
            self.wanted.emit(self._action, self.file)

    def _say_place(self, package: Package) -> None:
        """Where a file lies that we only read: it is not in our folder."""
        path = package.main.path
        is_shown = package.main.borrowed and path is not None
        self._place.setVisible(is_shown)
        if path is not None:
            folder = labels.folder(path.parent)
            self._place.setText(tr("Read where it lies: {folder}", folder=folder))

    def _show_menu(self, package: Package, standing: Standing) -> None:
        file = package.main
        rests = not standing.is_running and standing is not Standing.ELSEWHERE
        able = {
            "use": model_labels.can_redraw(file) and rests and package.is_complete,
            "verify": file.is_here and rests,
            "folder": file.path is not None,
            "remove": rests and file.path is not None and (file.is_own or not file.borrowed),
        }
        for name, entry in self._entries.items():
            entry.setText(tr(_MENU[name]))
            entry.setEnabled(able[name])
        self._entries["use"].setVisible(model_labels.can_redraw(file))
        self._more.setEnabled(any(able.values()))
        self._more.setIcon(icon("more"))
        self._more.setToolTip(tr("More for {name}", name=model_labels.full_title(file)))
        self._more.setAccessibleName(self._more.toolTip())

    def _show_problem(self, task: TaskState | None, notice: Notice | None) -> None:
        """An error with its hint, or what should be known of a file that was taken all the same."""
        error = task.error if task is not None else None
        self._problem.setVisible(error is not None or notice is not None)
        if error is not None:
            self._problem.say("refusal", *model_labels.problem(error))
        elif notice is not None:
            self._problem.say(notice.severity, text(notice), hint(notice))

    def _lay_out(self) -> None:
        self._name.setProperty("kind", "strong")
        for label in (self._words, self._place, self._licence, self._progress):
            label.setProperty("kind", "secondary")
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        self._size.setAlignment(right)
        self._size.setFixedWidth(SIZE_WIDTH)
        self._licence.setFixedWidth(LICENCE_WIDTH)
        self._button.setFixedWidth(BUTTON_WIDTH)
        self._more.setFixedWidth(MORE_WIDTH)
        self._more.setProperty("kind", "more")
        self._more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._menu.addActions(list(self._entries.values()))
        self._more.setMenu(self._menu)
        state = QWidget()
        state.setFixedWidth(STATE_WIDTH)
        inner = QHBoxLayout(state)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.setSpacing(6)
        inner.addWidget(self._icon)
        inner.addWidget(self._state, 1)
        texts = QVBoxLayout()
        texts.setSpacing(1)
        for label in (self._name, self._words, self._place):
            texts.addWidget(label)
        grid = QGridLayout()
        grid.setHorizontalSpacing(GAP)
        grid.setColumnStretch(0, 1)
        grid.addLayout(texts, 0, 0)
        for at, part in enumerate((self._size, self._licence, state, self._button, self._more)):
            grid.addWidget(part, 0, at + 1)
        busy = QHBoxLayout(self._busy)
        busy.setContentsMargins(0, 0, 0, 0)
        busy.setSpacing(GAP)
        busy.addWidget(self._bar, 1)
        busy.addWidget(self._progress)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 8, 10)
        column.setSpacing(8)
        column.addLayout(grid)
        for part in (self._busy, self._problem):
            column.addWidget(part)
            part.setVisible(False)
