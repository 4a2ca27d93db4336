"""Rows of the models page: a file, a file that is imported, and a group of files."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QElapsedTimer, QEvent, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app import labels
from app.engine_messages import hint, text
from app.i18n import mark, tr
from app.installs import model_labels
from app.state.model_files_model import FileStatus, Package, status_of
from app.state.tasks_model import TaskState
from app.theme.icons import icon, pixmap
from app.widgets.controls import ElidedLabel
from app.widgets.meters import ProgressLine, ShareBar
from app.widgets.notice_line import NoticeLine, colour_of
from app.widgets.plain import Label, set_tip
from engine.core.errors import LibraryMissing
from engine.core.plain_text import one_line
from engine.protocol.plan import Notice

SIZE_WIDTH, LICENCE_WIDTH, STATE_WIDTH, BUTTON_WIDTH, MORE_WIDTH = 72, 88, 168, 104, 36
GAP = 12
_ICONS = {
    FileStatus.MISSING: ("download", "info"),
    FileStatus.PARTIAL: ("pause", "info"),
    FileStatus.INCOMPLETE: ("warning", "warning"),
    FileStatus.DAMAGED: ("error", "refusal"),
    FileStatus.UNCHECKED: ("check", "info"),
    FileStatus.HERE: ("check", "good"),
    FileStatus.ELSEWHERE: ("info", "info"),
    FileStatus.WAITING: ("pause", "info"),
    FileStatus.BUSY: ("download", "good"),
    FileStatus.FAILED: ("error", "refusal"),
}
_MENU = {
    "use": mark("Use for this video"),
    "verify": mark("Verify"),
    "folder": mark("Show in folder"),
    "remove": mark("Remove …"),
}


def main_action(package: Package, status: FileStatus, task: TaskState | None) -> tuple[str, str]:
    """Name and text of the one button."""
    if status.is_running:
        return "stop", tr("Stop")
    if status is FileStatus.FAILED and task is not None:
        again = task.phase if task.phase in ("verify", "remove") else "get"
        return again, tr("Try again")
    if status.is_usable:
        return (
            ("use", tr("Use"))
            if model_labels.can_redraw(package.main)
            else ("verify", tr("Verify"))
        )
    if package.main.kind == "library":
        return "add", tr("Add …")
    if status is FileStatus.PARTIAL:
        return "get", tr("Continue")
    return "get", tr("Download again") if status is FileStatus.DAMAGED else tr("Download")


class DownloadRow(QFrame):
    """Shows one package; emits the requests of the user."""

    # "get", "add", "stop", "verify", "use", "remove", "folder"; id of the file
    requested = Signal(str, str)

    def __init__(self, file: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.file = file
        self.setObjectName(f"model-file-{file}")
        self._action = "get"
        self._problem = NoticeLine()
        self._problem.setObjectName(f"problem-{file}")
        self._shown: tuple[Package, TaskState | None, Notice | None] | None = None
        self._name, self._explanation = ElidedLabel(), ElidedLabel()
        self._place = ElidedLabel(Qt.TextElideMode.ElideMiddle)
        self._size, self._licence = Label(), Label()
        self._icon, self._state = Label(), ElidedLabel()
        self._button, self._more = QPushButton(), QToolButton()
        self._button.setObjectName(f"get-{file}")
        self._more.setObjectName(f"more-{file}")
        self._menu = QMenu(self)
        self._entries = {name: QAction(self) for name in _MENU}
        self._busy = ProgressLine()
        self._lay_out()
        self._since = QElapsedTimer()  # the last press
        self._button.clicked.connect(self._act)
        for name, entry in self._entries.items():
            entry.triggered.connect(lambda _=False, name=name: self.requested.emit(name, self.file))

    def show_package(self, package: Package, task: TaskState | None, notice: Notice | None) -> None:
        """Show the state of a file and its companions."""
        self._shown = (package, task, notice)
        file, status = package.main, status_of(package, task)
        self._name.setText(model_labels.file_title(file))
        self._explanation.setText(model_labels.file_text(file))
        self._size.setText(model_labels.size(file))
        self._licence.setText(one_line(file.licence) or "–")
        set_tip(self._licence, one_line(file.repository))
        self._show_place(package)
        shape, severity = _ICONS[status]
        self._icon.setPixmap(pixmap(shape, colour_of(severity), 16))
        self._state.setText(model_labels.status(package, status, task))
        self._action, text = main_action(package, status, task)
        self._button.setText(text)
        name = f"{model_labels.full_title(file)}, {one_line(file.filename)}"
        self._button.setAccessibleName(f"{text}: {name}")
        self._button.setEnabled(status is not FileStatus.ELSEWHERE)
        self._show_menu(package, status)
        self.show_progress(task if status.is_running else None)
        self._show_problem(task, notice)

    def show_progress(self, task: TaskState | None) -> None:
        """Only the figures: they come several times a second."""
        is_shown = task is not None and not task.waits
        self._busy.setVisible(is_shown)
        if task is not None and is_shown:
            self._busy.show_progress(task.share, model_labels.progress(task))

    def focus_button(self) -> None:
        """Take the keyboard focus."""
        self._button.setFocus(Qt.FocusReason.OtherFocusReason)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language and the theme."""
        super().changeEvent(event)
        requested = (QEvent.Type.LanguageChange, QEvent.Type.StyleChange)
        if event.type() in requested and self._shown is not None:
            self.show_package(*self._shown)

    def _act(self) -> None:
        """Emit the button's action; the second half of a double click does not stop it."""
        is_double = self._since.isValid() and not self._since.hasExpired(
            QApplication.doubleClickInterval()
        )
        self._since.start()
        if not (is_double and self._action == "stop"):
            self.requested.emit(self._action, self.file)

    def _show_place(self, package: Package) -> None:
        """Path of an external file."""
        path = package.main.path
        is_shown = package.main.borrowed and path is not None
        self._place.setVisible(is_shown)
        if path is not None:
            folder = labels.folder(path.parent)
            self._place.setText(tr("Used in place: {folder}", folder=folder))

    def _show_menu(self, package: Package, status: FileStatus) -> None:
        file = package.main
        rests = not status.is_running and status is not FileStatus.ELSEWHERE
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
        more = tr("More for {name}", name=model_labels.full_title(file))
        set_tip(self._more, more)
        self._more.setAccessibleName(more)

    def _show_problem(self, task: TaskState | None, notice: Notice | None) -> None:
        """An error with its hint, or a notice about a file that was imported all the same."""
        error = task.error if task is not None else None
        self._problem.setVisible(error is not None or notice is not None)
        if error is not None:
            self._problem.show_message("refusal", *model_labels.problem(error))
        elif notice is not None:
            self._problem.show_message(notice.severity, text(notice), hint(notice))

    def _lay_out(self) -> None:
        self._name.setProperty("kind", "strong")
        for label in (self._explanation, self._place, self._licence):
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
        for label in (self._name, self._explanation, self._place):
            texts.addWidget(label)
        grid = QGridLayout()
        grid.setHorizontalSpacing(GAP)
        grid.setColumnStretch(0, 1)
        grid.addLayout(texts, 0, 0)
        for at, part in enumerate((self._size, self._licence, state, self._button, self._more)):
            grid.addWidget(part, 0, at + 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 8, 10)
        column.setSpacing(8)
        column.addLayout(grid)
        for part in (self._busy, self._problem):
            column.addWidget(part)
            part.setVisible(False)


class ImportRow(QFrame):
    """Name, progress and Stop; or what is wrong with the file, and a way to what it lacks."""

    stop_requested = Signal(str)  # path
    dismissed = Signal(str)  # path
    library_requested = Signal()

    def __init__(self, path: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.setObjectName("importLine")
        self._path = path
        self._task = TaskState(phase="import")
        self._problem = NoticeLine()
        self._name, self._progress, self._bar = ElidedLabel(), Label(), ShareBar()
        self._name.setProperty("kind", "strong")
        self._progress.setProperty("kind", "secondary")
        self._bar.setFixedWidth(160)
        self._button = QPushButton()
        self._button.setObjectName("importButton")
        self._button.clicked.connect(self._act)
        self._add = QPushButton()
        self._add.setObjectName("addLibrary")
        self._add.clicked.connect(self.library_requested)
        head = QHBoxLayout()
        head.setSpacing(12)
        head.addWidget(self._name, 1)
        for part in (self._progress, self._bar, self._add, self._button):
            head.addWidget(part)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 14, 10)
        column.addLayout(head)
        column.addWidget(self._problem)

    def show_task(self, task: TaskState) -> None:
        """Show how far the import is, or its error."""
        self._task = task
        name = Path(self._path).name
        self._name.setText(tr("Importing {name}", name=name) if task.runs else name)
        self._progress.setText("" if task.waits else model_labels.progress(task))
        self._bar.set_shares(task.share)
        self._bar.setAccessibleName(self._progress.text())
        self._bar.setVisible(task.runs)
        self._progress.setVisible(task.runs)
        self._button.setText(tr("Stop") if task.runs else tr("Close"))
        self._button.setAccessibleName(f"{self._button.text()}: {name}")
        self._add.setText(tr("Add library …"))
        error = task.error
        self._add.setVisible(error is not None and error.code == LibraryMissing.code)
        self._problem.setVisible(error is not None)
        if error is not None:
            self._problem.show_message("refusal", *model_labels.problem(error))

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.LanguageChange:
            self.show_task(self._task)

    def _act(self) -> None:
        (self.stop_requested if self._task.runs else self.dismissed).emit(self._path)


SHARED = ""  # the group of files that belong to no single model


class Group(QWidget):
    """A heading, what it means, and a card with rows."""

    def __init__(self) -> None:
        super().__init__()
        self._title, self._explanation = Label(), Label()
        self._title.setProperty("kind", "title")
        self._explanation.setProperty("kind", "secondary")
        head = QHBoxLayout()
        head.setSpacing(10)
        head.addWidget(self._title)
        head.addWidget(self._explanation, 1, Qt.AlignmentFlag.AlignBottom)
        card = QFrame()
        card.setProperty("kind", "card")
        self._inside = QVBoxLayout(card)
        self._inside.setContentsMargins(0, 2, 0, 2)
        self._inside.setSpacing(0)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addLayout(head)
        column.addWidget(card)

    def set_texts(self, title: str, text: str) -> None:
        """Name of the group and a sentence about it."""
        self._title.setText(title)
        self._explanation.setText(text)

    def add(self, row: QWidget) -> None:
        """One more row, below a thin line."""
        if self._inside.count():
            rule = QFrame()
            rule.setProperty("kind", "rule")
            self._inside.addWidget(rule)
        self._inside.addWidget(row)


class ColumnHeads(QWidget):
    """Names of the columns, above them."""

    def __init__(self) -> None:
        super().__init__()
        self._labels = [Label() for _ in range(4)]
        row = QHBoxLayout(self)
        row.setContentsMargins(15, 0, 9 + BUTTON_WIDTH + MORE_WIDTH + 2 * GAP, 0)
        row.setSpacing(GAP)
        widths = (None, SIZE_WIDTH, LICENCE_WIDTH, STATE_WIDTH)
        for label, width in zip(self._labels, widths, strict=True):
            label.setProperty("kind", "secondary")
            if width is not None:
                label.setFixedWidth(width)
            row.addWidget(label, 0 if width is not None else 1)
        self._labels[1].setAlignment(Qt.AlignmentFlag.AlignRight)

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        texts = (tr("File"), tr("Size"), tr("Licence"), tr("State"))
        for label, heading in zip(self._labels, texts, strict=True):
            label.setText(heading)


def group_texts(model: str) -> tuple[str, str]:
    """Name of a group and a sentence about it."""
    if model == SHARED:
        return tr("Used by all SeedVR2 models"), tr("Downloaded with the first model.")
    return model_labels.model_title(model), model_labels.model_text(model)
