"""NVIDIA runtimes as the window knows them: which are here, what is done to one now."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal

from app.state.runtime_status import (
    Situation,
    Standing,
    Task,
    can_import,
    standing_of,
)
from engine.core.errors import ErrorInfo
from engine.protocol import events
from engine.protocol.runtime_state import Phase, RuntimeState

_KEPT = 8  # situations that were waved away


class RuntimeModel(QObject):
    """`changed` whenever something stands differently, `progressed` when only figures do."""

    changed = Signal()
    progressed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.listed: events.RuntimesListed | None = None
        self.task: Task | None = None
        self.done = ""  # the engine's last good news, a sentence
        self.hidden: tuple[str, ...] = ()  # keys of situations that were waved away
        self._quiet: set[str] = set()  # the same, until the program ends

    # The engine's side

    def on_event(self, event: events.Event) -> None:
        """Take what concerns runtimes; everything else is ignored."""
        match event:
            case events.RuntimesListed():
                self.listed = event
            case events.RuntimeProgress():
                before, self.task = self.task, _task(event)
                if before is not None and _shows_alike(before, self.task):
                    self.progressed.emit()
                    return
            case events.RuntimeDone():
                self.task, self.done = None, event.message
            case events.RuntimeFailed():
                self._fail(event.runtime, event.phase, event.error)
            case events.RuntimeStopped():
                self.task = None
            case _:
                return
        self.changed.emit()

    def _fail(self, runtime: str, phase: Phase, error: ErrorInfo) -> None:
        self.done = ""
        self.task = Task(runtime=runtime, phase=phase, error=error)

    # The window's side

    def ask(self, phase: Phase, runtime: str) -> None:
        """Remember what was asked for, so that it shows before the engine answers."""
        self.done = ""
        self.task = Task(runtime=runtime, phase=phase)
        self.changed.emit()

    def dismiss(self) -> None:
        """Forget an error or good news that was read."""
        self.done = ""
        if self.task is not None and not self.task.runs:
            self.task = None
        self.changed.emit()

    def hide(self, *, for_good: bool) -> None:
        """Wave the present situation away, for good or until the program ends."""
        key = self.standing.key
        if for_good:
            kept = [other for other in self.hidden if other != key]
            self.hidden = (*kept[-_KEPT + 1 :], key)
        self._quiet.add(key)
        self.changed.emit()

    @property
    def standing(self) -> Standing:
        """The one thing to say, whether it was waved away or not."""
        return standing_of(self.listed, self.task)

    @property
    def is_hidden(self) -> bool:
        """True where there is nothing to say, or nobody wants to hear it."""
        standing = self.standing
        if standing.situation is Situation.QUIET:
            return True
        return standing.key in self._quiet or standing.key in self.hidden

    @property
    def is_busy(self) -> bool:
        """True while something is done; a second wish would be refused."""
        return self.task is not None and self.task.runs

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
        """What was waved away in earlier runs."""
        self.hidden = tuple(keys)
        self.changed.emit()


def _task(event: events.RuntimeProgress) -> Task:
    return Task(
        runtime=event.runtime,
        phase=event.phase,
        done_mb=event.done_mb,
        total_mb=event.total_mb,
        mb_per_second=event.mb_per_second,
        seconds_left=event.seconds_left,
    )


def _shows_alike(before: Task, now: Task) -> bool:
    """True where only figures differ."""
    same = (before.runtime, before.phase, before.waits) == (now.runtime, now.phase, now.waits)
    return same and before.runs
