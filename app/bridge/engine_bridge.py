"""The engine behind the window: its import in a thread, its events in order in Qt's thread."""

from __future__ import annotations

import importlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from PySide6.QtCore import QObject, QTimer, Signal

from engine.protocol import events

DRAIN_MS = 33  # about 30 times a second
_TURN_S = 0.02  # of one drain; the rest waits for the next turn, after painting and input
E = TypeVar("E", bound=events.Event)


class _Channel(QObject):
    """The subscribers of one class; an error in a slot does not keep an event from the others."""

    delivered = Signal(object)


class EventHub:
    """Delivers each event to the slots that subscribed to its class or to a base of it.

    Slots are called in the order of their subscriptions: models, which are made first, know an
    event before those who ask the models.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        self._parent = parent
        self._channels: dict[type[events.Event], _Channel] = {}

    def subscribe(self, kind: type[E], slot: Callable[[E], object]) -> None:
        """Call `slot` with every event of that class."""
        for concrete in _with_subclasses(kind):
            if concrete not in self._channels:
                self._channels[concrete] = _Channel(self._parent)
            self._channels[concrete].delivered.connect(slot)

    def deliver(self, event: events.Event) -> None:
        """Call the subscribers of an event; in the window's thread."""
        channel = self._channels.get(type(event))
        if channel is not None:
            channel.delivered.emit(event)


class _Waker(QObject):
    """Carries the news that an event came from the engine's threads to the window's thread."""

    came = Signal()


class EngineBridge(EventHub):
    """An EventSink for the engine's threads.

    Events are delivered 33 ms after the first of them came, as many as a turn of the event loop
    has time for; between them nothing runs.

    Memory: the queue holds what comes until then; progress that a later event of the same stage
    or task supersedes is dropped before it is delivered.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._queue: queue.SimpleQueue[events.Event] = queue.SimpleQueue()
        self._taken: deque[events.Event] = deque()  # not delivered yet
        self._is_due = False  # the window's thread knows that there are events
        self._waker = _Waker(parent)
        self._timer = QTimer(self._waker, interval=DRAIN_MS, singleShot=True)
        self._timer.timeout.connect(self.drain)
        self._waker.came.connect(self._timer.start)

    def emit(self, event: events.Event) -> None:
        """Take one event; called from any thread, returns at once."""
        self._queue.put(event)
        self._announce()

    def drain(self) -> bool:
        """Deliver what has come, as far as there is time; whether some of it waits.

        Runs in the window's thread.
        """
        self._is_due = False  # first: what comes from here on is announced
        end = time.perf_counter() + _TURN_S
        came = (self._queue.get_nowait() for _ in range(self._queue.qsize()))
        self._taken = deque(without_superseded([*self._taken, *came]))
        while self._taken:
            self.deliver(self._taken.popleft())
            if self._taken and time.perf_counter() > end:
                QTimer.singleShot(0, self._waker, self.drain)
                return True
        return False

    def _announce(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._waker.came.emit()  # from another thread: queued


def without_superseded(taken: Sequence[events.Event]) -> list[events.Event]:
    """Returns the events in their order, less progress that a later event replaces."""
    seen: set[tuple[str, ...]] = set()
    kept: list[events.Event] = []
    for event in reversed(taken):
        match event:
            case events.StageProgress():
                key: tuple[str, ...] = ("stage", event.job_id, event.stage)
            case events.TaskProgress():
                key = ("task", event.kind, event.subject, event.phase)
            case events.Telemetry():
                key = ("telemetry",)
            case _:
                kept.append(event)
                continue
        if key not in seen:
            seen.add(key)
            kept.append(event)
    kept.reverse()
    return kept


def _with_subclasses(kind: type[events.Event]) -> Iterator[type[events.Event]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _with_subclasses(subclass)


class EngineImport(QObject):
    """Imports `engine.api` in a thread of its own, 0.2 s in which the window already answers."""

    _ended = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._thread = threading.Thread(target=self._run, name="engine import", daemon=True)
        self._then: Callable[[], None] = lambda: None
        self._ended.connect(self._finish)

    def start(self, then: Callable[[], None]) -> None:
        """Begin; `then` follows in the window's thread, where its own import raises what failed."""
        self._then = then
        self._thread.start()

    def wait(self) -> None:
        """Return when the thread has ended, if it was started."""
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            importlib.import_module("engine.api")
        finally:
            self._ended.emit()  # queued: Qt changes the thread

    def _finish(self) -> None:
        self._then()
