"""Model files as the window knows them: which are installed, and what is done to them now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from PySide6.QtCore import QObject

from app.bridge.engine_bridge import EventHub
from app.state.tasks_model import KindModel, TasksModel, TaskState
from engine.protocol import events
from engine.protocol.model_file_state import PublishedState, State
from engine.protocol.plan import Notice
from engine.protocol.tasks import Phase, TaskKind

MB = 1e6  # bytes


def size_of(file: PublishedState) -> int:
    """Bytes of the whole file: as published, else as computed; 0 while unknown."""
    return file.bytes or file.about_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A file with those it cannot work without: a transformer with VAE and text embedding.

    The VAEs of Wan need no other file.
    """

    main: PublishedState
    others: tuple[PublishedState, ...] = ()

    @property
    def files(self) -> tuple[PublishedState, ...]:
        """All of them, the small ones first: they are downloaded in this order."""
        return (*self.others, self.main)

    @property
    def lacking(self) -> tuple[PublishedState, ...]:
        """Those that are not whole on this machine."""
        return tuple(file for file in self.files if not file.is_here)

    @property
    def is_complete(self) -> bool:
        """True when it could be used now."""
        return not self.lacking

    @property
    def lacking_mb(self) -> float:
        """What is left to download, as far as sizes are known."""
        return sum(max(0, size_of(file) - file.done_bytes) for file in self.lacking) / MB


# State of a package: of its main file, or "incomplete" (a companion is missing), "waiting",
# "running" or "failed".
PackageState = State | Literal["incomplete", "waiting", "running", "failed"]


def state_of(package: Package, task: TaskState | None) -> PackageState:
    """State of a package, with what is done to it now."""
    if task is not None:
        if not task.runs:
            return "failed"
        return "waiting" if task.waits else "running"
    if package.main.is_here and not package.is_complete:
        return "incomplete"
    return package.main.state


_TRIED_FIRST = ("fp16", "q8", "fp8", "q4")  # as the engine does where none was named


class ModelFilesModel(KindModel):
    """The list of files, and which were requested together."""

    kind = TaskKind.MODEL_FILE

    def __init__(self, hub: EventHub, tasks: TasksModel, parent: QObject | None = None) -> None:
        super().__init__(tasks, parent)
        self.files: tuple[PublishedState, ...] = ()
        self.free_mb = 0.0
        self.is_known = False  # the engine has answered
        self.notices: dict[str, Notice] = {}  # by id of a file that was imported all the same
        self._orders: dict[str, tuple[str, ...]] = {}  # id of a main file -> requested with it
        hub.subscribe(events.ModelFilesListed, self._list)
        hub.subscribe(events.TaskDone, self._done)

    # The engine's side

    def _list(self, event: events.ModelFilesListed) -> None:
        self.files, self.free_mb, self.is_known = event.files, event.free_mb, True
        self.changed.emit()

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
            phase: What shall be done.
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
        """Forget an error that was read."""
        self.tasks.dismiss(self.kind, file)

    def stoppable(self, file: str) -> tuple[str, ...]:
        """What has to be stopped for a row or an import: not what another row still waits for."""
        known = self.find(file)
        parts = (file,) if known is None else tuple(part.id for part in self.package(known).files)
        running = tuple(name for name in self._orders.get(file, parts) if self._runs(name))
        requested = {
            name for main, files in self._orders.items() if main != file for name in files
        } - {file}
        return tuple(name for name in running if name not in requested) or running

    @property
    def cleaners(self) -> dict[str, str]:
        """Paths and titles of models that keep the size, which may go before another model."""
        return {
            str(file.path): file.title
            for file in self.files
            if file.is_here and file.network is not None and file.network.scale == 1
        }

    def find(self, file: str) -> PublishedState | None:
        """A file by its id."""
        return next((known for known in self.files if known.id == file), None)

    def is_main(self, file: PublishedState) -> bool:
        """Whether a file stands for a model: its transformer, or its VAE where that is all."""
        return file.kind == "dit" or not self._with_transformer.issuperset(file.models)

    def packages(self, model: str) -> tuple[Package, ...]:
        """The files that a model can be used with, each with its companions."""
        found = (file for file in self.files if model in file.models and self.is_main(file))
        return tuple(self.package(file) for file in found)

    def package(self, main: PublishedState) -> Package:
        """A file with its companions; only a transformer needs some."""
        if main.kind != "dit":
            return Package(main=main)
        others = (self._companion(kind, main) for kind in ("text", "vae"))
        return Package(main=main, others=tuple(file for file in others if file is not None))

    def best_package(self, model: str, precision: str = "auto") -> Package | None:
        """What to use or to get for a model.

        Args:
            model: Id of the model.
            precision: Of a transformer, as in the settings; "auto": here first, then begun.
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
        """Files that several models need."""
        return tuple(self.package(file) for file in self.files if not self.is_main(file))

    @property
    def _with_transformer(self) -> set[str]:
        return {name for file in self.files if file.kind == "dit" for name in file.models}

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
        """Ids and paths of what is being done now or waits."""
        return tuple(name for name, task in self._tasks.items() if task.runs)

    @property
    def _tasks(self) -> dict[str, TaskState]:
        return self.tasks.of(self.kind)

    @property
    def overall(self) -> TaskState | None:
        """Everything that runs, as one; None when nothing does."""
        return self.sum_of(self.running)

    def task_of(self, package: Package) -> TaskState | None:
        """What is done to a package now, or the error it ended with; None at rest."""
        ordered = self._orders.get(package.main.id)
        if ordered is not None and any(self._runs(file) for file in ordered):
            return self.sum_of(ordered)
        own = self._tasks.get(package.main.id)
        if own is not None:
            return own
        if not package.main.is_here:
            return None  # what its companions do does not make this one come nearer
        others = [file.id for file in package.others if self._runs(file.id)]
        errors = (self._tasks.get(file.id) for file in package.others)
        return self.sum_of(others) or next((error for error in errors if error is not None), None)

    def sum_of(self, files: Iterable[str]) -> TaskState | None:
        """Several files as one; None where nothing runs."""
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
        """MB that are done, and all: a file that is ready counts, so that a bar never goes back."""
        task, file = self._tasks.get(name), self.find(name)
        total = size_of(file) / MB if file is not None else 0.0
        if task is None:
            return total, total
        total = task.total or total
        if task.waits and task.phase == "download" and file is not None:
            return file.done_bytes / MB, total
        return task.done, total

    def _current(self, names: tuple[str, ...]) -> TaskState | None:
        """The one that has its turn, else one that waits."""
        found = [self._tasks[name] for name in names if self._runs(name)]
        return min(found, key=lambda task: task.waits, default=None)

    def _companion(self, kind: str, main: PublishedState) -> PublishedState | None:
        """The VAE or text embedding of a transformer: one that is here if there is one."""
        fitting = [
            file
            for file in self.files
            if file.kind == kind and set(main.models) <= set(file.models)
        ]
        return min(fitting, key=lambda file: (not file.is_here, file.is_own), default=None)

    def _runs(self, file: str) -> bool:
        return self.tasks.runs(self.kind, file)


def _distance(package: Package) -> tuple[bool, bool, int]:
    """How far a package is from being used."""
    precision = package.main.precision if package.main.kind == "dit" else _TRIED_FIRST[0]
    at = _TRIED_FIRST.index(precision) if precision in _TRIED_FIRST else len(_TRIED_FIRST)
    return not package.main.is_here, package.main.state != "partial", at
