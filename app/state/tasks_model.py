"""Tasks in the background as the window knows them: what runs, waits or has failed."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from app.bridge.engine_bridge import EventHub
from engine.core.errors import ErrorInfo
from engine.core.messages import Message
from engine.protocol import events
from engine.protocol.tasks import Phase, TaskKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """A task from the request on, or the error it ended with; MB of 10**6 bytes, or steps."""

    subject: str = ""
    phase: Phase = ""
    done: float = 0.0
    total: float = 0.0  # 0 while unknown
    per_second: float = 0.0
    seconds_left: float = 0.0  # 0 while unknown
    step: Message | None = None  # present step of a benchmark
    error: ErrorInfo | None = None

    @property
    def runs(self) -> bool:
        """True from the request on until it has ended."""
        return self.error is None

    @property
    def waits(self) -> bool:
        """True while nothing can be counted, as when others have their turn."""
        return self.runs and not (self.done or self.total)

    @property
    def share(self) -> float:
        """Finished part, 0 to 1."""
        return min(1.0, self.done / self.total) if self.total else 0.0


class TasksModel(QObject):
    """Tasks by kind and subject; one that ended well is forgotten, an error stays until dismissed.

    Of model files several tasks wait for each other; of every other kind the latest is kept.
    """

    changed = Signal(str)  # kind: a task began, ended or is in another phase
    progressed = Signal(str, str)  # kind and subject: only figures

    def __init__(self, hub: EventHub, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._tasks: dict[TaskKind, dict[str, TaskState]] = {kind: {} for kind in TaskKind}
        hub.subscribe(events.TaskProgress, self._progress)
        hub.subscribe(events.TaskFailed, self._fail)
        hub.subscribe(events.TaskDone, self._end)
        hub.subscribe(events.TaskStopped, self._end)

    def of(self, kind: TaskKind) -> dict[str, TaskState]:
        """The tasks of a kind by subject."""
        return self._tasks[kind]

    def latest(self, kind: TaskKind) -> TaskState | None:
        """The task of a kind of which only one is kept."""
        return next(iter(self._tasks[kind].values()), None)

    def runs(self, kind: TaskKind, subject: str = "") -> bool:
        """Whether a task runs or waits."""
        task = self._tasks[kind].get(subject)
        return task is not None and task.runs

    def request(self, kind: TaskKind, phase: Phase, *subjects: str) -> None:
        """Remember what was requested, so that it shows before the engine answers."""
        for subject in subjects:
            if not self.runs(kind, subject):
                self._keep(kind, TaskState(subject=subject, phase=phase))
        self.changed.emit(kind)

    def dismiss(self, kind: TaskKind, subject: str = "") -> None:
        """Forget an error that was read."""
        if not self.runs(kind, subject):
            self._tasks[kind].pop(subject, None)
            self.changed.emit(kind)

    def _keep(self, kind: TaskKind, task: TaskState) -> None:
        if kind is not TaskKind.MODEL_FILE:
            self._tasks[kind].clear()
        self._tasks[kind][task.subject] = task

    def _progress(self, event: events.TaskProgress) -> None:
        before = self._tasks[event.kind].get(event.subject)
        task = TaskState(
            subject=event.subject,
            phase=event.phase,
            done=event.done,
            total=event.total,
            per_second=event.per_second,
            seconds_left=event.seconds_left,
            step=event.step,
        )
        self._keep(event.kind, task)
        if before is not None and _shows_alike(before, task):
            self.progressed.emit(event.kind, event.subject)
        else:
            self.changed.emit(event.kind)

    def _fail(self, event: events.TaskFailed) -> None:
        failed = TaskState(subject=event.subject, phase=event.phase, error=event.error)
        self._keep(event.kind, failed)
        self.changed.emit(event.kind)

    def _end(self, event: events.TaskDone | events.TaskStopped) -> None:
        ended = [event.subject] if event.kind is TaskKind.MODEL_FILE else self._tasks[event.kind]
        for subject in tuple(ended):
            self._tasks[event.kind].pop(subject, None)
        self.changed.emit(event.kind)


def _shows_alike(before: TaskState, now: TaskState) -> bool:
    """True where only figures differ."""
    return before.runs and (before.phase, before.waits) == (now.phase, now.waits)


class KindModel(QObject):
    """Items that the engine listed of one kind, and their tasks: a base of the pages' models."""

    changed = Signal()
    progressed = Signal(str)  # subject: only figures, several times a second
    kind: TaskKind

    def __init__(self, tasks: TasksModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.tasks = tasks
        tasks.changed.connect(self._tasks_changed)
        tasks.progressed.connect(self._task_progressed)

    @property
    def task(self) -> TaskState | None:
        """Running or failed task; None at rest."""
        return self.tasks.latest(self.kind)

    @property
    def is_running(self) -> bool:
        """Whether something is done; a second request would be refused."""
        return self.task is not None and self.task.runs

    @property
    def error(self) -> ErrorInfo | None:
        """Error of the last task."""
        return self.task.error if self.task is not None else None

    def _tasks_changed(self, kind: str) -> None:
        if kind == self.kind:
            self.changed.emit()

    def _task_progressed(self, kind: str, subject: str) -> None:
        if kind == self.kind:
            self.progressed.emit(subject)
