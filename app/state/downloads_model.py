"""Videos that start by themselves once their missing files have been downloaded."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from app.state.job_row import JobRow
from app.state.model_files_model import ModelFilesModel
from app.state.runtimes_model import RuntimesModel, find
from app.state.tasks_model import TaskState
from engine.core.errors import ErrorInfo, PretendedGpu, WeightsMissing
from engine.protocol.tasks import TaskKind

MISSING = WeightsMissing.code  # of a refusal that a download answers


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredDownload:
    """Files and runtime to download before a video can start."""

    files: tuple[str, ...] = ()  # ids of model files, the transformer first
    runtime: str = ""  # id of the NVIDIA runtime; it is used after a new start of the program
    model: str = ""  # chosen for the video

    def __bool__(self) -> bool:
        return bool(self.files or self.runtime)

    def covers(self, other: RequiredDownload) -> bool:
        """Whether the other ones are a part of these, for the same choice of a model."""
        is_part = set(other.files) <= set(self.files) and other.runtime in ("", self.runtime)
        return is_part and other.model == self.model

    def includes(self, kind: TaskKind, subject: str) -> bool:
        """Whether a task downloads one of them."""
        if kind is TaskKind.RUNTIME:
            return bool(self.runtime)
        return kind is TaskKind.MODEL_FILE and subject in self.files


def required_download(row: JobRow) -> RequiredDownload:
    """Missing files of a video, by its refusal or error; none where that has another reason."""
    notices = row.plan.notices if row.plan is not None else ()
    params = next((n.params for n in notices if n.code == MISSING), {})
    if row.error is not None and row.error.code == MISSING:
        params = row.error.params
    files = (name.strip() for name in str(params.get("files", "")).split(","))
    return RequiredDownload(
        files=tuple(filter(None, files)),
        runtime=str(params.get("needs_runtime", "")),
        model=row.settings.model,
    )


def can_download(row: JobRow) -> bool:
    """Whether only missing files keep a video from starting here, or on a pretended GPU."""
    return bool(required_download(row)) and set(row.refusals) <= {MISSING, PretendedGpu.code}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDownload:
    """Reason why a missing file was not downloaded."""

    needs: RequiredDownload
    kind: TaskKind  # kind of the task that failed
    error: ErrorInfo


class DownloadsModel(QObject):
    """Downloads by the video that needs them, and the errors that some ended with."""

    changed = Signal()  # a video was added, left or has an error; another phase of a download
    progressed = Signal()  # only figures

    def __init__(
        self, files: ModelFilesModel, runtimes: RuntimesModel, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._files, self._runtimes = files, runtimes
        self.films: dict[str, RequiredDownload] = {}  # by job
        self.failures: dict[str, FailedDownload] = {}  # by job, until it is tried again
        for known in (files, runtimes):
            known.changed.connect(self.changed)
            known.progressed.connect(self.progressed)

    def begin(self, job_id: str, needs: RequiredDownload) -> None:
        """Let a video wait for its downloads."""
        self.failures.pop(job_id, None)
        self.films[job_id] = needs
        self.changed.emit()

    def end(self, job_id: str) -> None:
        """Let a video wait no longer."""
        self.films.pop(job_id, None)
        self.changed.emit()

    def fail(self, job_id: str, failure: FailedDownload) -> None:
        """Remember the error of a task: the video does not start."""
        self.failures[job_id] = failure
        self.changed.emit()

    def forget_failure(self, job_id: str) -> None:
        """Forget an error: the video needs something else now, or nothing."""
        self.failures.pop(job_id, None)
        self.changed.emit()

    def left(self, needs: RequiredDownload) -> RequiredDownload:
        """Downloads that are not installed yet."""
        found = {name: self._files.find(name) for name in needs.files}
        state = find(self._runtimes.listed, needs.runtime)
        is_installed = state is not None and state.is_chosen and state.state == "here"
        is_idle = not self._runtimes.is_running
        return RequiredDownload(
            files=tuple(name for name, file in found.items() if file is None or not file.is_here),
            runtime="" if is_installed and is_idle else needs.runtime,
        )

    def progress(self, needs: RequiredDownload) -> dict[TaskKind, TaskState]:
        """Progress of the tasks that run for them."""
        tasks = {TaskKind.RUNTIME: self._runtimes.task if needs.runtime else None}
        tasks[TaskKind.MODEL_FILE] = self._files.sum_of(needs.files)
        return {kind: task for kind, task in tasks.items() if task is not None and task.runs}
