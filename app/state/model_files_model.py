"""Model files as the window knows them: installed ones, and tasks that run on any of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.bridge.engine_bridge import EventHub
from app.state.tasks_model import KindModel, TasksModel, TaskState
from engine.core.errors import ErrorInfo
from engine.protocol import events
from engine.protocol.model_file_state import PublishedState, State
from engine.protocol.plan import Notice
from engine.protocol.tasks import Phase, TaskKind

MB = 1e6  # bytes


def size_of(state: PublishedState) -> int:
    """Bytes to download in all: as published, else as computed; 0 while unknown."""
    return state.bytes or state.about_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A file with its companions: a transformer needs a VAE and a text embedding; others none."""

    main: PublishedState
    others: tuple[PublishedState, ...] = ()

    @property
    def files(self) -> tuple[PublishedState, ...]:
        """All files in the order of their downloads: small ones first."""
        return (*self.others, self.main)

    @property
    def lacking(self) -> tuple[PublishedState, ...]:
        """Files that are not completely installed."""
        return tuple(file for file in self.files if not file.is_here)

    @property
    def is_complete(self) -> bool:
        """Whether a job could use it now."""
        return not self.lacking

    @property
    def lacking_mb(self) -> float:
        """MB left to download, as far as sizes are known."""
        return sum(max(0, size_of(file) - file.done_bytes) for file in self.lacking) / MB


# State of a package: of its main file, or "incomplete" (a companion is missing), "waiting",
# "running" or "failed".
PackageState = State | Literal["incomplete", "waiting", "running", "failed"]


def state_of(package: Package, task: TaskState | None) -> PackageState:
    """State of a package with its task."""
    if task is not None:
        if not task.runs:
            return "failed"
        return "waiting" if task.waits else "running"
    if package.main.is_here and not package.is_complete:
        return "incomplete"
    return package.main.state


_TRIED_FIRST = (
    "fp16",
    "q8",
    "int8",
    "mxfp8",
    "fp8",
    "q4",
)  # as in the engine, where the settings name none


class ModelFilesModel(KindModel):
    """The list of files, and the groups in which they were requested."""

    kind = TaskKind.MODEL_FILE
    installed_changed = Signal()  # another file is installed, or one is not any more

    def __init__(self, hub: EventHub, tasks: TasksModel, parent: QObject | None = None) -> None:
        super().__init__(tasks, parent)
        self.files: tuple[PublishedState, ...] = ()
        self.free_mb = 0.0
        self.is_known = False  # the engine has answered
        self.notices: dict[str, Notice] = {}  # by id; files that were imported all the same
        self._orders: dict[str, tuple[str, ...]] = {}  # id of a main file -> requested with it
        hub.subscribe(events.ModelFilesListed, self._list)
        hub.subscribe(events.TaskDone, self._done)

    # The engine's side

    def _list(self, event: events.ModelFilesListed) -> None:
        before, was_known = self.installed, self.is_known
        self.files, self.free_mb, self.is_known = event.files, event.free_mb, True
        self.changed.emit()
        if was_known and before != self.installed:
            self.installed_changed.emit()

    def _done(self, event: events.TaskDone) -> None:
        if isinstance(event.result, PublishedState) and event.notice is not None:
            self.notices[event.result.id] = event.notice
            self.changed.emit()

    def _tasks_changed(self, kind: str) -> None:
        self._orders = {
            main: files for main, files in self._orders.items() if any(map(self._runs, files))
        }
        super()._tasks_changed(kind)

    # The window's side

    def request(self, phase: Phase, files: Iterable[str], main: str = "") -> None:
        """Remember what was requested, so that it shows before the engine answers.

        Args:
            phase: Phase that the tasks begin with.
            files: Ids, or the path of an import.
            main: The file whose row shows the progress of all of them; "" for each its own.
        """
        requested = tuple(files)
        for file in requested:
            self.notices.pop(file, None)
        if main:
            self._orders[main] = requested
        self.tasks.request(self.kind, phase, *requested)

    def dismiss(self, file: str) -> None:
        """Forget an error that the user has read."""
        self.tasks.dismiss(self.kind, file)

    def stoppable(self, file: str) -> tuple[str, ...]:
        """Tasks to stop for a row or an import; those that another row waits for continue."""
        known = self.find(file)
        parts = (file,) if known is None else tuple(part.id for part in self.package(known).files)
        running = tuple(name for name in self._orders.get(file, parts) if self._runs(name))
        requested = {
            name for main, files in self._orders.items() if main != file for name in files
        } - {file}
        return tuple(name for name in running if name not in requested) or running

    @property
    def cleaners(self) -> dict[str, str]:
        """Paths and titles of models that keep the size: they may clean frames for another one."""
        return {
            str(file.path): file.title
            for file in self.files
            if file.is_here and file.network is not None and file.network.scale == 1
        }

    @property
    def installed(self) -> frozenset[str]:
        """Ids of files that are installed."""
        return frozenset(file.id for file in self.files if file.is_here)

    def find(self, file: str) -> PublishedState | None:
        """A file by its id."""
        return next((known for known in self.files if known.id == file), None)

    def is_main(self, file: PublishedState) -> bool:
        """Whether a file stands for a model: its transformer, or its VAE where it has none."""
        have_transformers = {name for one in self.files if one.kind == "dit" for name in one.models}
        return file.kind == "dit" or not have_transformers.issuperset(file.models)

    def packages(self, model: str) -> tuple[Package, ...]:
        """Files of a model, each with its companions; one of them is enough."""
        found = (file for file in self.files if model in file.models and self.is_main(file))
        return tuple(self.package(file) for file in found)

    def package(self, main: PublishedState) -> Package:
        """The package of a file."""
        if main.kind != "dit":
            return Package(main=main)
        others = (self._companion(kind, main) for kind in ("text", "vae"))
        return Package(main=main, others=tuple(file for file in others if file is not None))

    def best_package(self, model: str, precision: str = "auto") -> Package | None:
        """Package to use or to download for a model.

        Args:
            model: Id of the model.
            precision: Precision of a transformer, as in the settings; "auto" prefers one that is
                installed, then one whose download was begun.
        """
        found = [
            package
            for package in self.packages(model)
            if precision in ("auto", package.main.precision) or package.main.kind != "dit"
        ]
        return min(found, key=_distance, default=None)

    @property
    def models(self) -> tuple[str, ...]:
        """Ids of the models in the list, in its order."""
        names = [name for file in self.files if self.is_main(file) for name in file.models]
        return tuple(dict.fromkeys(names))

    @property
    def shared(self) -> tuple[Package, ...]:
        """Packages of files that several models need."""
        return tuple(self.package(file) for file in self.files if not self.is_main(file))

    @property
    def imports(self) -> dict[str, TaskState]:
        """Imports that run or have failed, by path."""
        known = {file.id for file in self.files}
        return {
            name: task
            for name, task in self._tasks.items()
            if task.phase == "import" and name not in known
        }

    @property
    def running(self) -> tuple[str, ...]:
        """Subjects of tasks that run or wait: ids, and paths of imports."""
        return tuple(name for name, task in self._tasks.items() if task.runs)

    @property
    def _tasks(self) -> dict[str, TaskState]:
        return self.tasks.of(self.kind)

    @property
    def overall(self) -> TaskState | None:
        """All running tasks as one; None at rest."""
        return self.sum_of(self.running)

    def task_of(self, package: Package) -> TaskState | None:
        """Task on a package, or the error it ended with; None at rest."""
        ordered = self._orders.get(package.main.id)
        if ordered is not None and any(self._runs(file) for file in ordered):
            return self.sum_of(ordered)
        own = self._tasks.get(package.main.id)
        if own is not None:
            return own
        if not package.main.is_here:
            return None  # tasks of its companions do not bring this one nearer
        others = [file.id for file in package.others if self._runs(file.id)]
        errors = (self._tasks.get(file.id) for file in package.others)
        return self.sum_of(others) or next((error for error in errors if error is not None), None)

    def error_of(self, package: Package) -> ErrorInfo | None:
        """Error of the last task on one of the files that a package lacks; None without one."""
        tasks = (self._tasks.get(file.id) for file in package.lacking)
        return next((task.error for task in tasks if task is not None and task.error), None)

    def sum_of(self, files: Iterable[str]) -> TaskState | None:
        """Tasks of several files as one; None at rest."""
        names = tuple(files)
        current = self._current(names)
        if current is None or current.waits:
            return current
        parts = [self._part(name) for name in names]
        done, total = (sum(part) for part in zip(*parts, strict=True))
        speed = current.per_second
        left = (total - done) / speed if speed and total else current.seconds_left
        return replace(current, done=done, total=total, seconds_left=left)

    def _part(self, name: str) -> tuple[float, float]:
        """Finished and total MB; a file that is ready counts, so that a bar never goes back."""
        task, file = self._tasks.get(name), self.find(name)
        total = size_of(file) / MB if file is not None else 0.0
        if task is None:
            return total, total
        total = task.total or total
        if task.waits and task.phase == "download" and file is not None:
            return file.done_bytes / MB, total
        return task.done, total

    def _current(self, names: tuple[str, ...]) -> TaskState | None:
        """The task that has its turn, else one that waits."""
        found = [self._tasks[name] for name in names if self._runs(name)]
        return min(found, key=lambda task: task.waits, default=None)

    def _companion(self, kind: str, main: PublishedState) -> PublishedState | None:
        """The VAE or text embedding of a transformer, preferably an installed one."""
        fitting = [
            file
            for file in self.files
            if file.kind == kind and set(main.models) <= set(file.models)
        ]
        return min(fitting, key=lambda file: (not file.is_here, file.is_own), default=None)

    def _runs(self, file: str) -> bool:
        return self.tasks.runs(self.kind, file)


def _distance(package: Package) -> tuple[bool, bool, int]:
    """Distance of a package from being usable; the smallest is taken."""
    precision = package.main.precision if package.main.kind == "dit" else _TRIED_FIRST[0]
    at = _TRIED_FIRST.index(precision) if precision in _TRIED_FIRST else len(_TRIED_FIRST)
    return not package.main.is_here, package.main.state != "partial", at
