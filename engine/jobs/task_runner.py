"""One task at a time, in a thread of its own; how far it is and how it ended become events."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from engine.core.control import Control
from engine.core.errors import Cancelled, EngineError
from engine.downloads.transfer import Listener
from engine.jobs.internal_error import internal
from engine.jobs.progress_meter import Amount, Meter
from engine.protocol.events import Event, EventSink

logger = logging.getLogger(__name__)

End = EngineError | Cancelled | None
"""Why a task ended; None when it was done."""


class Task(ABC):
    """Something that takes a while; its text is what the log calls it.

    Args:
        sink: Gets the events.
    """

    def __init__(self, sink: EventSink) -> None:
        self.control = Control()
        self._sink = sink

    @property
    def listener(self) -> Listener:
        """For the work: says how far it is, and is told to stop."""
        return Listener(on_progress=Meter(self.say), control=self.control)

    def say(self, amount: Amount) -> None:
        """Say how far it is."""
        self._sink.emit(self.progress(amount))

    def end(self, why: End) -> None:
        """Say how it ended."""
        if isinstance(why, EngineError):
            logger.warning("%s: %s", self, why.message)
        self._sink.emit(self.last_word(why))

    @abstractmethod
    def progress(self, amount: Amount) -> Event:
        """The event that says how far it is."""

    @abstractmethod
    def last_word(self, why: End) -> Event:
        """The event that says how it ended."""


T = TypeVar("T", bound=Task)


class OneTask(Generic[T]):
    """Where at most one task runs.

    Args:
        name: Of the threads.
        afterwards: Called in the thread when a task has ended and that was said.
    """

    def __init__(self, name: str, afterwards: Callable[[], None] = lambda: None) -> None:
        self._name = name
        self._afterwards = afterwards
        self._running: T | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> T | None:
        """The task that has not ended."""
        return self._running

    def begin(self, task: T, do: Callable[[T], None]) -> None:
        """Do it; returns at once. Whoever calls this knows that nothing runs."""
        self._running = task
        before = self._thread
        self._thread = threading.Thread(
            target=self._work, args=(task, do, before), name=self._name, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Let the task end soon; nothing happens where none runs."""
        task = self._running
        if task is not None:
            task.control.cancel()

    def close(self, timeout_s: float) -> None:
        """Stop, and wait that long for the thread."""
        self.stop()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _work(self, task: T, do: Callable[[T], None], before: threading.Thread | None) -> None:
        if before is not None:
            before.join()  # its task has ended, but for what is done afterwards
        why: End = None
        try:
            do(task)
        except (EngineError, Cancelled) as err:
            why = err
        except Exception as err:  # nobody is above a thread who could tell the window
            logger.exception("%s", task)
            why = internal(err)
        self._running = None  # before it is said: the answer to it may be the next wish
        task.end(why)
        self._afterwards()
