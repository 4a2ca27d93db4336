"""NVIDIA runtimes as the window knows them: installed ones, and the situation to show."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtCore import QObject

from app.bridge.engine_bridge import EventHub
from app.state.tasks_model import KindModel, TasksModel, TaskState
from engine.protocol import events
from engine.protocol.delivery import RuntimeState
from engine.protocol.events import RuntimesListed
from engine.protocol.plan import Notice
from engine.protocol.tasks import Phase, TaskKind


class Situation(enum.Enum):
    """The situation that is shown, if any."""

    QUIET = "quiet"  # nothing to offer: no GPU, all well, or not known yet
    OFFER = "offer"  # a GPU could be used after a download
    PARTIAL = "partial"  # a part of it has come
    BUSY = "busy"
    FAILED = "failed"
    READY = "ready"  # the next start uses another torch than this one
    BROKEN = "broken"  # installed, and not used
    BLOCKED = "blocked"  # installed, and Windows refuses to load it
    OLD_DRIVER = "old-driver"
    OLD_GPU = "old-card"


_UNUSABLE = {"broken": Situation.BROKEN, "blocked": Situation.BLOCKED}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStatus:
    """One situation with its runtime."""

    situation: Situation
    runtime: RuntimeState | None = None  # None with READY: back to the torch of the program
    outdated: bool = False  # OFFER: a runtime of another version of the program is chosen

    @property
    def key(self) -> str:
        """Text that tells it from others that the user has hidden."""
        about = self.runtime
        parts = (about.id, about.torch, str(about.why or "")) if about is not None else ()
        return ":".join((self.situation.value, *parts))


def status_of(listed: RuntimesListed | None, task: TaskState | None) -> RuntimeStatus:
    """The situation to show.

    Args:
        listed: The last list of the engine; None before it has answered.
        task: Running task, or one that has failed and was not dismissed.
    """
    if task is not None:
        situation = Situation.BUSY if task.runs else Situation.FAILED
        return RuntimeStatus(situation=situation, runtime=find(listed, task.subject))
    if listed is None or not listed.follows_choice:
        return RuntimeStatus(situation=Situation.QUIET)
    chosen = next((state for state in listed.runtimes if state.is_chosen), None)
    used = next((state for state in listed.runtimes if state.is_used), None)
    broken = next((s for s in (chosen, used) if s is not None and s.state in _UNUSABLE), None)
    if broken is not None and (is_known(broken) or not listed.suited):
        return RuntimeStatus(situation=_UNUSABLE[broken.state], runtime=broken)
    if broken is None and chosen is not used and (chosen is None or chosen.state == "here"):
        return RuntimeStatus(situation=Situation.READY, runtime=chosen)
    if broken is None and used is not None:
        return RuntimeStatus(situation=Situation.QUIET)
    return _for_gpu(listed, is_outdated=broken is not None)


def _for_gpu(listed: RuntimesListed, *, is_outdated: bool) -> RuntimeStatus:
    """Situation of a GPU that no runtime uses yet."""
    suited = find(listed, listed.suited)
    if suited is None:
        situation = Situation.OLD_DRIVER if listed.driver_needed else Situation.OLD_GPU
        return RuntimeStatus(situation=situation if listed.card else Situation.QUIET)
    if not suited.suits_program:
        return RuntimeStatus(situation=Situation.QUIET)
    situations = {
        "missing": Situation.OFFER,
        "partial": Situation.PARTIAL,
        **_UNUSABLE,
    }
    # "here" and not chosen is what the user wants; "busy" belongs to another program.
    situation = situations.get(suited.state, Situation.QUIET)
    return RuntimeStatus(situation=situation, runtime=suited, outdated=is_outdated)


def find(listed: RuntimesListed | None, runtime: str) -> RuntimeState | None:
    """A runtime by its id."""
    runtimes = listed.runtimes if listed is not None else ()
    return next((state for state in runtimes if state.id == runtime), None)


def is_known(state: RuntimeState) -> bool:
    """True for runtimes of this build; others were installed by another version of the program."""
    return bool(state.driver)


def can_repair(state: RuntimeState) -> bool:
    """Whether a broken one can be downloaded again now: not while this process has it loaded."""
    return is_known(state) and not state.is_used


_KEPT = 8  # hidden situations


class RuntimesModel(KindModel):
    """The list of runtimes, and the situations that the user has hidden."""

    kind = TaskKind.RUNTIME

    def __init__(self, hub: EventHub, tasks: TasksModel, parent: QObject | None = None) -> None:
        super().__init__(tasks, parent)
        self.listed: events.RuntimesListed | None = None
        self.done: Notice | None = None  # of the last task that ended well
        self.hidden: tuple[str, ...] = ()  # keys of situations that the user has hidden
        self._quiet: set[str] = set()  # the same, until the program ends
        hub.subscribe(events.RuntimesListed, self._list)
        hub.subscribe(events.TaskDone, self._end)
        hub.subscribe(events.TaskFailed, self._end)

    # The engine's side

    def _list(self, event: events.RuntimesListed) -> None:
        self.listed = event
        self.changed.emit()

    def _end(self, event: events.TaskDone | events.TaskFailed) -> None:
        if event.kind is self.kind:
            self.done = event.notice if isinstance(event, events.TaskDone) else None
            self.changed.emit()

    # The window's side

    def request(self, phase: Phase, runtime: str) -> None:
        """Remember a request, so that it shows before the engine answers."""
        self.done = None
        self.tasks.request(self.kind, phase, runtime)

    def dismiss(self) -> None:
        """Forget an error or good news that the user has read."""
        self.done = None
        if self.task is not None:
            self.tasks.dismiss(self.kind, self.task.subject)
        self.changed.emit()

    def hide(self, *, for_good: bool) -> None:
        """Hide the present situation, for good or until the program ends."""
        key = self.status.key
        if for_good:
            kept = [other for other in self.hidden if other != key]
            self.hidden = (*kept[-_KEPT + 1 :], key)
        self._quiet.add(key)
        self.changed.emit()

    @property
    def status(self) -> RuntimeStatus:
        """The situation to show, whether it is hidden or not."""
        return status_of(self.listed, self.task)

    @property
    def is_hidden(self) -> bool:
        """Whether there is nothing to show, or the user has hidden it."""
        status = self.status
        if status.situation is Situation.QUIET:
            return True
        return status.key in self._quiet or status.key in self.hidden

    @property
    def leaves_gpu_idle(self) -> bool:
        """Whether the computer has a GPU, and no runtime that computes on it."""
        listed = self.listed
        if listed is None or not listed.follows_choice or not listed.card:
            return False
        return not any(state.is_used and state.state == "here" for state in listed.runtimes)

    @property
    def runtimes(self) -> tuple[RuntimeState, ...]:
        """Runtimes of this build, then those that other versions have left."""
        return self.listed.runtimes if self.listed is not None else ()

    def restore_hidden(self, keys: Iterable[str]) -> None:
        """Hide situations that were hidden in earlier runs."""
        if keys := tuple(keys):
            self.hidden = keys
            self.changed.emit()
