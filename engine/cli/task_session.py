"""Hands weights commands to the engine and shows what it says, until each has ended."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from engine.cli.context import CANCELLED, DONE, FAILED, Context
from engine.cli.inbox import Interrupted
from engine.cli.session import Session, session
from engine.cli.task_line import WeightsLine, line_on
from engine.core.units import bytes_text
from engine.protocol import commands as c
from engine.protocol import events as e

_DONE = {
    "download": "{id} is here: {path}",
    "verify": "{id} is right: {path}",
    "import": "{title} is here as {id}: {path}",
    "remove": "{id} is removed.",
}


class WeightsTalk:
    """An engine that is asked about model files only."""

    def __init__(self, context: Context, engine: Session) -> None:
        self._console = context.console
        self._engine = engine
        self._line: WeightsLine = line_on(context.console.err)
        self._open: list[str] = []
        self._failed = self._stopping = False

    def listed(self) -> e.WeightsListed:
        """Where every file stands."""
        self._engine.send(c.ListWeights())
        while True:
            event = self._engine.next()
            if isinstance(event, e.WeightsListed):
                return event
            if isinstance(event, Interrupted):
                raise KeyboardInterrupt

    def run(self, wanted: Sequence[tuple[str, c.WeightsCommand]]) -> int:
        """Send commands, each with the name of its file, and show how they go.

        Returns:
            Exit status: 0 when all went well, 130 when the user stopped them, else 1.
        """
        self._open = [file for file, _ in wanted]
        for _, command in wanted:
            self._engine.send(command)
        try:
            while self._open:
                self._hear(self._engine.next())
        finally:
            self._line.clear()
        if self._stopping:
            self._console.note("Cancelled. What was loaded is kept, and goes on next time.")
            return CANCELLED
        return FAILED if self._failed else DONE

    def _hear(self, event: e.Event) -> None:
        if isinstance(event, Interrupted):
            self._stop()
        if not isinstance(event, e.WeightsEvent):
            return
        if self._console.json:
            self._console.data(event, event=type(event).__name__)
        if isinstance(event, e.WeightsProgress):
            self._line.show(event)
            return
        self._open.remove(event.file)
        self._line.clear()
        match event:
            case e.WeightsDone():
                self._done(event)
            case e.WeightsFailed():
                self._failed = True
                self._console.note(f"{event.file}:")
                self._console.error(event.error)

    def _done(self, event: e.WeightsDone) -> None:
        result = event.result
        text = _DONE[event.phase].format(id=result.id, title=result.title, path=result.path)
        size = f" ({bytes_text(result.done_bytes)})" if result.done_bytes else ""
        self._console.say(text + size)
        if event.notice is not None:
            self._console.notice(event.notice)

    def _stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            self._line.clear()
            self._console.note("Stopping; press Ctrl-C again to end at once.")
            for file in self._open:
                self._engine.send(c.StopWeights(file=file))


@contextlib.contextmanager
def talk(context: Context) -> Iterator[WeightsTalk]:
    """An engine for weights commands, closed at the end."""
    with session(context) as engine:
        yield WeightsTalk(context, engine)
