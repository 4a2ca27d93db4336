"""Runs tasks in the background to their end and shows how far they are."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import IO, TypeVar

from engine.cli.context import CANCELLED, DONE, FAILED, CommandContext
from engine.cli.session import Interrupted, Session, session
from engine.core.errors import EngineError, ErrorInfo
from engine.core.plain_text import one_line
from engine.core.units import bytes_text, duration_text
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.model_file_state import PublishedState
from engine.protocol.tasks import TaskKind

E = TypeVar("E", bound=e.Event)
_LINE_EVERY_S = 10.0
_OBJECTS = {TaskKind.RUNTIME: "the NVIDIA runtime {}", TaskKind.UPDATE: "the update"}
_VERBS = {
    "download": "downloading",
    "verify": "verifying",
    "import": "verifying",
    "unpack": "unpacking",
    "try": "testing",
    "remove": "removing",
    "use": "selecting",
    "check": "checking for",
    "install": "verifying",
}
_DONE = {  # of model files
    "download": "{id} is installed: {path}",
    "verify": "{id} is verified: {path}",
    "import": "{title} is installed as {id}: {path}",
    "remove": "{id} was removed.",
}


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


def progress_text(event: e.TaskProgress) -> str:
    """Progress of a task, in MB: "downloading x: 120 of 6780 MB (1 %), 23.4 MB/s, 4 min left"."""
    verb = _VERBS[event.phase]
    if (event.kind, event.phase) == (TaskKind.MODEL_FILE, "import"):
        verb = "copying"
    start = f"{verb} {_OBJECTS.get(event.kind, '{}').format(event.subject)}: "
    if not event.done and not event.total:
        return start + "waiting"
    parts = [_amount(event)]
    if event.per_second:
        parts.append(f"{event.per_second:.1f} MB/s")
    if event.seconds_left >= 1:
        parts.append(f"{duration_text(event.seconds_left)} left")
    return start + ", ".join(parts)


def _amount(event: e.TaskProgress) -> str:
    digits = 0 if max(event.total, event.done) >= 10 else 1
    done = f"{event.done:.{digits}f}"
    if not event.total:
        return f"{done} MB"
    return f"{done} of {event.total:.{digits}f} MB ({event.done / event.total:.0%})"


class TaskLine:
    """Progress on a stream: a line written over in a terminal, else one every ten seconds."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._width = 0
        self._due = time.monotonic() + _LINE_EVERY_S

    def show(self, event: e.TaskProgress) -> None:
        """Show how far a task is."""
        if self._is_terminal:
            self._write_over(one_line(progress_text(event)))
        elif time.monotonic() >= self._due:
            self._due = time.monotonic() + _LINE_EVERY_S
            self._stream.write(one_line(progress_text(event)) + "\n")
            self._stream.flush()

    def clear(self) -> None:
        """Make room for other text; whole lines stay."""
        if self._width:
            self._write_over("")
            self._stream.write("\r")

    def _write_over(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)
