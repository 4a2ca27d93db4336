"""How far the downloads are that a film waits for, or why they ended."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.i18n import tr
from app.installs import runtime_labels
from app.installs.installable import problem, progress
from app.state.downloads_model import DownloadsModel
from app.state.job_row import JobRow
from app.state.tasks_model import TaskState
from app.widgets.meters import ShareBar
from app.widgets.notice_line import NoticeLine
from app.widgets.plain import Label
from engine.core.errors import ErrorInfo, RuntimeNotAccepted
from engine.protocol.tasks import TaskKind


class DownloadLines(QWidget):
    """A line and a bar for the NVIDIA runtime and for model files; hidden for other films."""

    def __init__(self, model: DownloadsModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._row: JobRow | None = None
        self._lines = {kind: _Line() for kind in (TaskKind.RUNTIME, TaskKind.MODEL_FILE)}
        self._then, self._problem = Label(), NoticeLine()
        self._then.setProperty("kind", "secondary")
        self._then.setWordWrap(True)
        self._problem.setObjectName("downloadProblem")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        for part in (*self._lines.values(), self._then, self._problem):
            column.addWidget(part)
        model.changed.connect(self._show)
        model.progressed.connect(self._show)

    def show_job(self, row: JobRow) -> None:
        """Show the downloads of a job."""
        self._row = row
        self._show()

    def _show(self, _subject: str = "") -> None:
        job_id = self._row.job_id if self._row is not None else ""
        needs, failure = self._model.films.get(job_id), self._model.failures.get(job_id)
        tasks = self._model.progress(needs) if needs is not None else {}
        for kind, line in self._lines.items():
            line.setVisible(kind in tasks)
            if kind in tasks:
                line.show_task(_title(kind, tasks[kind]), tasks[kind])
        self._then.setVisible(needs is not None)
        if needs is not None:
            self._then.setText(
                tr("Upreel then restarts and starts the video automatically.")
                if needs.runtime
                else tr("The video then starts automatically.")
            )
        self._problem.setVisible(failure is not None)
        if failure is not None:
            self._problem.show_message("refusal", *_problem(failure.kind, failure.error))
        self.setVisible(needs is not None or failure is not None)


def _title(kind: TaskKind, task: TaskState) -> str:
    if kind is TaskKind.RUNTIME:
        return runtime_labels.phase_title(task)
    return tr("Downloading the model")


def _problem(kind: TaskKind, error: ErrorInfo) -> tuple[str, str]:
    if error.code == RuntimeNotAccepted.code:
        return tr("Not started: you did not accept the NVIDIA runtime file"), ""
    is_runtime = kind is TaskKind.RUNTIME
    return runtime_labels.problem(error) if is_runtime else problem(error)


class _Line(QWidget):
    """What is done, its figures, and a bar below."""

    def __init__(self) -> None:
        super().__init__()
        self._title, self._figures, self._bar = Label(), Label(), ShareBar()
        for label in (self._title, self._figures):
            label.setProperty("kind", "small")
            label.setWordWrap(True)
        self._figures.setProperty("kind", "secondary")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        for part in (self._title, self._bar, self._figures):
            column.addWidget(part)

    def show_task(self, title: str, task: TaskState) -> None:
        figures = tr("Please wait …") if task.waits else progress(task)
        self._title.setText(title)
        self._figures.setText(figures)
        self._bar.set_shares(task.share)
        self._bar.setAccessibleName(f"{title}: {figures}")
