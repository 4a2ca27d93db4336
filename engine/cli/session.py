"""An engine for one command of the command line; Ctrl-C is one of its events."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from engine.cli.context import CANCELLED, CommandContext
from engine.core.errors import InternalError
from engine.protocol import events as e
from engine.protocol.commands import Command
from engine.settings.schema import EngineSettings

if TYPE_CHECKING:
    from engine.api import Engine

_WAIT_S = 0.2  # Windows lets Ctrl-C in between two waits only


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted(e.Event):
    """The user pressed Ctrl-C, or the process was asked to end."""


class Inbox(queue.SimpleQueue[e.Event]):
    """An EventSink that keeps everything for the main thread."""

    def emit(self, event: e.Event) -> None:
        """Take one event, from any thread."""
        self.put(event)

    def next(self) -> e.Event:
        """Wait for an event; Ctrl-C interrupts the wait."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self.get(timeout=_WAIT_S)


@contextlib.contextmanager
def interrupts(inbox: Inbox) -> Iterator[None]:
    """Meanwhile the first Ctrl-C (or kill) is an event, and the second ends the process at once.

    Ending at once is safe: finished segments are on the disk, the checkpoint is never half, and a
    download continues from its part.
    """
    pressed = False

    def press(_number: int, _frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            os._exit(CANCELLED)
        pressed = True
        inbox.put(Interrupted())  # SimpleQueue may be used from a signal handler

    names = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGBREAK"):
        names.append(signal.SIGBREAK)
    before = {name: signal.signal(name, press) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


class Session:
    """Sends commands and waits for events."""

    def __init__(self, engine: Engine, inbox: Inbox) -> None:
        self._engine, self._inbox = engine, inbox

    def send(self, command: Command) -> None:
        """Hand over a command; returns at once."""
        self._engine.send(command)

    def next(self) -> e.Event:
        """Wait for an event.

        Raises:
            InternalError: The engine has ended, which it should not.
        """
        event = self._inbox.next()
        if isinstance(event, e.EngineClosed):
            raise InternalError("ended-early")
        return event


@contextlib.contextmanager
def session(context: CommandContext, settings: EngineSettings | None = None) -> Iterator[Session]:
    """A started engine, closed at the end; without settings those of this machine count."""
    inbox = Inbox()
    engine = context.services.open(inbox, settings or context.own_settings())
    engine.start()
    try:
        with interrupts(inbox):
            yield Session(engine, inbox)
    finally:
        engine.close()
