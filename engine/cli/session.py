"""An engine for one command of the command line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from engine.cli.context import Context, Front
from engine.cli.inbox import Inbox, interrupts
from engine.core.errors import InternalError
from engine.protocol.commands import Command
from engine.protocol.events import EngineClosed, Event
from engine.settings.schema import EngineSettings
from engine.settings.store import load_engine_settings


class Session:
    """Sends commands, and waits for what is said; Ctrl-C is said too."""

    def __init__(self, engine: Front, inbox: Inbox) -> None:
        self._engine, self._inbox = engine, inbox

    def send(self, command: Command) -> None:
        """Hand over a command; returns at once."""
        self._engine.send(command)

    def next(self, *, hint: str = "Try again.") -> Event:
        """Wait for an event.

        Raises:
            InternalError: The engine has ended, which it should not; with that hint.
        """
        event = self._inbox.next()
        if isinstance(event, EngineClosed):
            raise InternalError("The engine ended before its work.", hint=hint)
        return event


@contextlib.contextmanager
def session(context: Context, settings: EngineSettings | None = None) -> Iterator[Session]:
    """A started engine, closed at the end; without settings those of this machine count."""
    inbox = Inbox()
    engine = context.services.open(inbox, settings or load_engine_settings())
    engine.start()
    try:
        with interrupts(inbox):
            yield Session(engine, inbox)
    finally:
        engine.close()
