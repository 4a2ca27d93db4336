"""An import that runs or has failed: the file is not in the list yet."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.i18n import tr
from app.models import model_labels
from app.state.tasks_model import TaskState
from app.widgets.controls import ElidedLabel
from app.widgets.meters import ShareBar
from app.widgets.notice_line import NoticeLine


class ImportRow(QFrame):
    """Name, progress and Stop; or what is wrong with the file."""

    stop_wanted = Signal(str)  # path
    dismissed = Signal(str)  # path

    def __init__(self, path: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.setObjectName("importLine")
        self._path = path
        self._task = TaskState(phase="import")
        self._problem = NoticeLine()
        self._name, self._progress, self._bar = ElidedLabel(), QLabel(), ShareBar()
        self._name.setProperty("kind", "strong")
        self._progress.setProperty("kind", "secondary")
        self._bar.setFixedWidth(160)
        self._button = QPushButton()
        self._button.setObjectName("importButton")
        self._button.clicked.connect(self._act)
        head = QHBoxLayout()
        head.setSpacing(12)
        head.addWidget(self._name, 1)
        for part in (self._progress, self._bar, self._button):
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
        error = task.error
        self._problem.setVisible(error is not None)
        if error is not None:
            self._problem.say("refusal", *model_labels.problem(error))

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.LanguageChange:
            self.show_task(self._task)

    def _act(self) -> None:
        (self.stop_wanted if self._task.runs else self.dismissed).emit(self._path)
