"""An engine in a test: events are kept, and waited for by class."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from engine.api import Engine
from engine.protocol.events import (
    Event,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobRejected,
    TaskDone,
    TaskFailed,
    TaskStopped,
)
from engine.settings.schema import EngineSettings

E = TypeVar("E", bound=Event)
ENDS = (JobFinished, JobFailed, JobCancelled, JobRejected)
TASK_ENDS = (TaskDone, TaskFailed, TaskStopped)


class Listener:
    """Keeps all events; `wait` takes them one by one.

    Args:
        answer: Called with each event in the thread that says it, once it is kept.
    """

    def __init__(self, answer: Callable[[Event], None] = lambda event: None) -> None:
        self._answer = answer
        self._queue: queue.Queue[Event] = queue.Queue()
        self.seen: list[Event] = []

    def emit(self, event: Event) -> None:
        self._queue.put(event)
        self._answer(event)

    def wait(self, *kinds: type[E], timeout_s: float = 60.0) -> E:
        """The next event of one of these classes."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                event = self._queue.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                seen = [type(e).__name__ for e in self.seen]
                raise AssertionError(f"no {kinds} in {timeout_s} s, only {seen}") from None
            self.seen.append(event)
            if isinstance(event, kinds):
                return event

    def of(self, kind: type[E]) -> list[E]:
        """All events of a class seen so far."""
        return [event for event in self.seen if isinstance(event, kind)]


@contextmanager
def running_engine(jobs: Path) -> Iterator[tuple[Engine, Listener]]:
    """A started engine that is closed at the end, and what it says."""
    listener = Listener()
    engine = Engine(listener, settings=EngineSettings(threads=2), jobs_folder=jobs)
    engine.start()
    try:
        yield engine, listener
    finally:
        assert engine.close(timeout_s=60), "the engine did not end"
