"""Other computers as the window knows them: who is paired, who waits to be, how a pairing goes."""

from __future__ import annotations

import enum

from PySide6.QtCore import QObject

from app.bridge.engine_bridge import EventHub
from app.state.tasks_model import KindModel, TasksModel
from engine.core.errors import ErrorInfo
from engine.protocol import events
from engine.protocol.machines import MachineInfo, MachinesKnown, MachinesState, PairingWords
from engine.protocol.tasks import TaskKind


class Step(enum.Enum):
    """Stages of a pairing."""

    REST = "rest"  # none is under way
    CALLING = "calling"  # the other computer has not answered yet
    WORDS = "words"  # they are to be compared
    WAITING = "waiting"  # they are the same here; the other side has not said so yet
    FAILED = "failed"


class MachinesModel(KindModel):
    """The last state, and the pairing that is under way; there is one at a time."""

    kind = TaskKind.PAIRING

    def __init__(self, hub: EventHub, tasks: TasksModel, parent: QObject | None = None) -> None:
        super().__init__(tasks, parent)
        self.state: MachinesState | None = None  # None before the engine has answered
        self.words: PairingWords | None = None
        self.paired: tuple[str, tuple[str, ...]] | None = (
            None  # name and words, until they are read
        )
        self._address = ""  # that a pairing was asked for with; "" where the other one began
        self._is_confirmed = self._is_pairing = False
        hub.subscribe(MachinesKnown, self._know)
        hub.subscribe(PairingWords, self._compare)
        hub.subscribe(events.TaskDone, self._done)
        hub.subscribe(events.TaskStopped, self._stopped)

    # The window's side

    def request(self, address: str) -> None:
        """A pairing was asked for; the engine's first event follows."""
        self._begin()
        self.paired, self._address = None, address
        self.tasks.request(self.kind, "", address)

    def confirm(self) -> None:
        """The words are the same on this side."""
        self._is_confirmed = True
        self.changed.emit()

    def give_up(self) -> None:
        """The pairing is not wanted any more; the engine's task ends by itself."""
        self._end()

    def dismiss(self) -> None:
        """Forget an error or good news that was read."""
        self.paired, self._is_pairing = None, False
        if self.task is not None:
            self.tasks.dismiss(self.kind, self.task.subject)
        self.changed.emit()

    @property
    def step(self) -> Step:
        """Stage of the pairing."""
        if not self._is_pairing:
            return Step.REST
        if self.error is not None:
            return Step.FAILED
        if self.words is None:
            return Step.CALLING
        return Step.WAITING if self._is_confirmed else Step.WORDS

    @property
    def address(self) -> str:
        """Address that the pairing was requested with; "" where the other computer began."""
        return self._address

    @property
    def partner(self) -> str:
        """The other computer of a pairing: its name, or its address before that is known."""
        return self.words.name if self.words is not None else self._address

    @property
    def problem(self) -> ErrorInfo | None:
        """Error outside of a pairing: a computer could not be forgotten or lent."""
        return None if self._is_pairing else self.error

    @property
    def machines(self) -> tuple[MachineInfo, ...]:
        """Paired computers."""
        return self.state.machines if self.state is not None else ()

    def find(self, fingerprint: str) -> MachineInfo | None:
        """One of them; None where it is not paired any more."""
        return next((one for one in self.machines if one.fingerprint == fingerprint), None)

    # The engine's side

    def _know(self, event: MachinesKnown) -> None:
        if event.state != self.state:
            self.state = event.state
            self.changed.emit()

    def _compare(self, event: PairingWords) -> None:
        if not self._is_pairing:  # the other computer began
            self._begin()
        self.words, self._is_confirmed = event, False
        self.changed.emit()

    def _done(self, event: events.TaskDone) -> None:
        if event.kind is self.kind:
            self.paired = self.partner, self.words.words if self.words is not None else ()
            self._end()

    def _stopped(self, event: events.TaskStopped) -> None:
        if event.kind is self.kind:
            self._end()

    def _begin(self) -> None:
        self.words, self._address = None, ""
        self._is_confirmed, self._is_pairing = False, True

    def _end(self) -> None:
        self._is_pairing = False
        self.changed.emit()
