"""Data of the smaller pages: presets, the update, the benchmark's report, the archive."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.bridge.engine_bridge import EventHub
from app.state.tasks_model import KindModel, TasksModel
from engine.core.errors import ErrorInfo
from engine.protocol import events
from engine.protocol.delivery import UpdateState
from engine.protocol.report import BenchReport
from engine.protocol.tasks import Phase, TaskKind
from engine.settings.presets import Preset


class PresetsModel(QObject):
    """Presets that the engine listed last; `failed` carries errors of saving, import and export."""

    changed = Signal()
    failed = Signal(ErrorInfo)

    def __init__(self, hub: EventHub, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.presets: tuple[Preset, ...] = ()
        self.card = ""  # "RTX 5070 Ti, 16 GB"; "" without a GPU that can be used
        hub.subscribe(events.PresetsListed, self._list)
        hub.subscribe(events.TaskFailed, self._fail)

    def own(self, title: str) -> Preset | None:
        """The user's preset of that title; case does not count."""
        plain = title.strip().casefold()
        own = (preset for preset in self.presets if preset.is_own)
        return next((preset for preset in own if preset.title.casefold() == plain), None)

    def _list(self, event: events.PresetsListed) -> None:
        self.presets, self.card = event.presets, event.card
        self.changed.emit()

    def _fail(self, event: events.TaskFailed) -> None:
        if event.kind is TaskKind.PRESET:
            self.failed.emit(event.error)


class UpdateModel(KindModel):
    """State of an update."""

    installable = Signal()  # the setup may be started: the program has to end
    kind = TaskKind.UPDATE

    def __init__(self, hub: EventHub, tasks: TasksModel, parent: QObject | None = None) -> None:
        super().__init__(tasks, parent)
        self.state = UpdateState(version="", is_in_build=True)
        hub.subscribe(events.UpdateKnown, self._know)
        hub.subscribe(events.TaskDone, self._done)

    @property
    def phase(self) -> Phase:
        """Phase of the running task; "" at rest."""
        return self.task.phase if self.task is not None and self.is_running else ""

    @property
    def share(self) -> float:
        """Downloaded part of the setup, 0 to 1."""
        if self.task is not None and self.task.total:
            return self.task.share
        return min(1.0, self.state.done_bytes / self.state.bytes) if self.state.bytes else 0.0

    def _know(self, event: events.UpdateKnown) -> None:
        self.state = event.state
        self.changed.emit()

    def _done(self, event: events.TaskDone) -> None:
        if event.kind is self.kind and event.phase == "install":
            self.installable.emit()


class BenchmarkModel(KindModel):
    """Report of the last benchmark, and whether one runs."""

    kind = TaskKind.BENCHMARK

    def __init__(self, hub: EventHub, tasks: TasksModel, parent: QObject | None = None) -> None:
        super().__init__(tasks, parent)
        self.report: BenchReport | None = None
        self.archive = ""  # path of the archive that is written, or was written last
        self.was_stopped = False  # the user stopped the one that runs, or the last one
        hub.subscribe(events.TaskDone, self._done)

    def begin(self, archive: str = "") -> None:
        """The benchmark was requested, or an archive; the engine's first event follows."""
        self.was_stopped, self.archive = False, archive
        self.tasks.request(self.kind, "", archive)

    def end(self) -> None:
        """The benchmark ends at its next step."""
        self.was_stopped = True
        self.changed.emit()

    def _done(self, event: events.TaskDone) -> None:
        if event.kind is self.kind:
            if isinstance(event.result, BenchReport):
                self.report = event.result
            self.was_stopped = False
            self.changed.emit()


class DiagnosticsModel(KindModel):
    """Path of the diagnostics archive that was written last."""

    kind = TaskKind.DIAGNOSTICS

    def __init__(self, hub: EventHub, tasks: TasksModel, parent: QObject | None = None) -> None:
        super().__init__(tasks, parent)
        self.written = ""  # "" before the first one
        hub.subscribe(events.TaskDone, self._done)

    def _done(self, event: events.TaskDone) -> None:
        if event.kind is self.kind:
            self.written = event.subject
            self.changed.emit()
