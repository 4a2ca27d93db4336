"""NVIDIA runtimes as the window knows them: which are here, what is done to one now."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject

from app.bridge.engine_bridge import EventHub
from app.state.runtime_status import Situation, Standing, can_import, standing_of
from app.state.tasks_model import KindModel, TasksModel
from engine.protocol import events
from engine.protocol.plan import Notice
from engine.protocol.runtime_state import RuntimeState
from engine.protocol.tasks import Phase, TaskKind

_KEPT = 8  # hidden situations


class RuntimesModel(KindModel):
    """The list of runtimes, and which situations the user has hidden."""

    kind = TaskKind.RUNTIME

    def __init__(self, hub: EventHub, tasks: TasksModel, parent: QObject | None = None) -> None:
        super().__init__(tasks, parent)
        self.listed: events.RuntimesListed | None = None
        self.done: Notice | None = None  # what was done last
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
        """Remember what was requested, so that it shows before the engine answers."""
        self.done = None
        self.tasks.request(self.kind, phase, runtime)

    def dismiss(self) -> None:
        """Forget an error or good news that was read."""
        self.done = None
        if self.task is not None:
            self.tasks.dismiss(self.kind, self.task.subject)
        self.changed.emit()

    def hide(self, *, for_good: bool) -> None:
        """Hide the present situation, for good or until the program ends."""
        key = self.standing.key
        if for_good:
            kept = [other for other in self.hidden if other != key]
            self.hidden = (*kept[-_KEPT + 1 :], key)
        self._quiet.add(key)
        self.changed.emit()

    @property
    def standing(self) -> Standing:
        """The one thing to say, whether it is hidden or not."""
        return standing_of(self.listed, self.task)

    @property
    def is_hidden(self) -> bool:
        """True where there is nothing to say, or the user has hidden it."""
        standing = self.standing
        if standing.situation is Situation.QUIET:
            return True
        return standing.key in self._quiet or standing.key in self.hidden

    @property
    def leaves_card_idle(self) -> bool:
        """True where there is a card, and no runtime that computes on it."""
        listed = self.listed
        if listed is None or not listed.follows_choice or not listed.card:
            return False
        return not any(state.is_used and state.state == "here" for state in listed.runtimes)

    @property
    def can_import(self) -> bool:
        """True where this build could take a wheel from a file."""
        return can_import(self.listed)

    @property
    def runtimes(self) -> tuple[RuntimeState, ...]:
        """Those of this build, then what other versions have left."""
        return self.listed.runtimes if self.listed is not None else ()

    def restore_hidden(self, keys: Iterable[str]) -> None:
        """What was hidden in earlier runs."""
        self.hidden = tuple(keys)
        self.changed.emit()
