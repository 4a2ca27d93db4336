"""An engine for one command of the command line, its tasks, and Ctrl-C as one of its events."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from engine.cli.context import CANCELLED, DONE, FAILED, CommandContext
from engine.cli.progress import TaskLine
from engine.core.errors import EngineError, ErrorInfo, InternalError
from engine.core.units import bytes_text
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.model_file_state import PublishedState
from engine.protocol.tasks import TaskKind
from engine.settings.schema import EngineSettings

if TYPE_CHECKING:
    from engine.api import Engine

E = TypeVar("E", bound=e.Event)

_DONE = {  # of model files
    "download": "{id} is installed: {path}",
    "verify": "{id} is verified: {path}",
    "import": "{title} is installed as {id}: {path}",
    "convert": "{title} is installed as {id}: {path}",
    "remove": "{id} was removed.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted(e.Event):
    """The user pressed Ctrl-C, or the process was asked to end."""


@contextlib.contextmanager
def interrupts(inbox: e.Inbox) -> Iterator[None]:
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

    def __init__(self, engine: Engine, inbox: e.Inbox) -> None:
        self._engine, self._inbox = engine, inbox

    def send(self, command: c.Command) -> None:
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
    inbox = e.Inbox()
    engine = context.services.open(inbox, settings or context.own_settings())
    engine.start()
    try:
        with interrupts(inbox):
            yield Session(engine, inbox)
    finally:
        engine.close()


class TaskSession:
    """An engine that is asked for tasks of one kind.

    Args:
        context: Context of the command.
        engine: Started.
        kind: Kind of the tasks.
        prints_events: Whether their events are printed where the user wants JSON.
    """

    def __init__(
        self, context: CommandContext, engine: Session, kind: TaskKind, *, prints_events: bool
    ) -> None:
        self._console, self._engine, self._kind = context.console, engine, kind
        self._line = TaskLine(context.console.err)
        self._prints_events = prints_events and context.console.json
        self.failure: ErrorInfo | None = None  # of the task that ended last

    def ask(self, command: c.Command, answer: type[E]) -> E:
        """The event that answers a command.

        Raises:
            EngineError: The engine refused.
            KeyboardInterrupt: The user pressed Ctrl-C.
        """
        self._engine.send(command)
        while True:
            event = self._engine.next()
            if isinstance(event, answer):
                return event
            if isinstance(event, e.TaskFailed):
                raise EngineError("reported", problem=event.error.message, help=event.error.hint)
            if isinstance(event, Interrupted):
                raise KeyboardInterrupt

    def run(self, *commands: c.Command) -> int:
        """Send commands, each for another task, and show how they go.

        Returns:
            Exit status: 0 when all went well, 130 when the user stopped them, else 1.
        """
        for command in commands:
            self._engine.send(command)
        ends: list[e.TaskEvent] = []
        is_interrupted = False
        try:
            while len(ends) < len(commands):
                event = self._engine.next()
                if isinstance(event, Interrupted) and not is_interrupted:
                    is_interrupted = True
                    self._stop()
                elif isinstance(event, e.TaskEvent):
                    self._show(event)
                    ends += [] if isinstance(event, e.TaskProgress) else [event]
        finally:
            self._line.clear()
        if any(isinstance(end, e.TaskStopped) for end in ends):
            self._console.note("Cancelled. The partial download is kept and will resume next time.")
            return CANCELLED
        return FAILED if any(isinstance(end, e.TaskFailed) for end in ends) else DONE

    def _stop(self) -> None:
        self._line.clear()
        self._console.note("Stopping; press Ctrl-C again to stop immediately.")
        self._engine.send(c.StopTask(kind=self._kind))

    def _show(self, event: e.TaskEvent) -> None:
        if self._prints_events:
            self._console.data(event, event=type(event).__name__)
        if isinstance(event, e.TaskProgress):
            self._line.show(event)
            return
        self._line.clear()
        self.failure = event.error if isinstance(event, e.TaskFailed) else None
        match event:
            case e.TaskDone():
                self._show_done(event)
            case e.TaskFailed(error=error):
                if self._kind is TaskKind.MODEL_FILE:
                    self._console.note(f"{event.subject}:")
                elif self._console.json and not self._prints_events:
                    self._console.data({"error": error})
                self._console.error(error)

    def _show_done(self, event: e.TaskDone) -> None:
        result, notice = event.result, event.notice
        if isinstance(result, PublishedState):
            text = _DONE[event.phase].format(id=result.id, title=result.title, path=result.path)
            size = f" ({bytes_text(result.done_bytes)})" if result.done_bytes else ""
            self._console.say(text + size)
        if notice is not None and notice.severity == "info":
            self._console.say(notice.message)
        elif notice is not None:
            self._console.notice(notice)


@contextlib.contextmanager
def task_session(
    context: CommandContext, kind: TaskKind, *, prints_events: bool = True
) -> Iterator[TaskSession]:
    """An engine for tasks of one kind, closed at the end."""
    with session(context) as engine:
        yield TaskSession(context, engine, kind, prints_events=prints_events)
