"""`update`: look for a newer version, get its setup, start it."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from engine.cli.context import CANCELLED, DONE, FAILED, Context
from engine.cli.inbox import Interrupted
from engine.cli.session import Session, session
from engine.cli.task_line import WeightsLine, line_on
from engine.core.serialization import to_plain
from engine.core.units import bytes_text
from engine.protocol import events as e
from engine.protocol import update_messages as m

_EXAMPLES = """examples:
  python -m engine update check                    is there a newer version, and what is new in it
  python -m engine update install                  get its setup and start it

Nothing is looked for but by these commands and the button of the window. A setup is taken only if
its description is signed by Upreel's key and it is what that says, to the last byte.
"""


def register(add: Callable[..., Any]) -> None:
    """Put `update` with its verbs on the command line."""
    command = add(
        "update", run, "look for a newer version of Upreel, get and install it", _EXAMPLES
    )
    verbs = command.add_subparsers(title="verbs", metavar="VERB", required=True)
    _verb(verbs, "check", _check, "tell whether there is a newer version")
    _verb(verbs, "download", _download, "get its setup, or go on where that ended")
    _verb(verbs, "install", _install, "start its setup; other windows of Upreel have to be closed")


def run(args: argparse.Namespace, context: Context) -> int:
    """Do one verb."""
    try:
        with _talk(context) as talk:
            args.verb(talk)
    except _Ended as end:
        return end.status
    _show(talk.state, context)
    if args.verb is _install and talk.state.newer:
        path = context.services.start_update()
        context.console.note(f"{path.name} is started. Close Upreel where it is still open.")
    return DONE


def _verb(verbs: Any, name: str, do: Callable[[_Talk], None], help: str) -> None:
    verb = verbs.add_parser(
        name, help=help, description=help[0].upper() + help[1:] + ".", allow_abbrev=False
    )
    verb.set_defaults(verb=do, usage_error=verb.error)
    verb.add_argument("--json", action="store_true", help="print one JSON object")


def _check(talk: _Talk) -> None:
    talk.do(m.CheckUpdate())


def _download(talk: _Talk) -> None:
    talk.do(m.CheckUpdate())
    if talk.state.newer:
        talk.do(m.DownloadUpdate())


def _install(talk: _Talk) -> None:
    talk.do(m.CheckUpdate())
    if not talk.state.newer:
        return
    if talk.state.installed_as == "setup" and not talk.state.is_ready:
        talk.do(m.DownloadUpdate())
    talk.do(m.InstallUpdate())  # refuses what no setup can update


def _show(state: m.UpdateState, context: Context) -> None:
    console = context.console
    if console.json:
        console.data(to_plain(state))
        return
    if not state.newer:
        console.say(f"Upreel {state.version} is the newest version.")
        return
    where = "its setup is here" if state.is_ready else f"{bytes_text(state.bytes)} to load"
    console.say(f"Upreel {state.newer} of {state.date}; {where}. You have {state.version}.")
    console.say(state.notes["en"].strip())


class _Ended(Exception):
    """A command did not go well, and everything is said."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Talk:
    """An engine that is asked about updates only."""

    def __init__(self, context: Context, engine: Session) -> None:
        self._console = context.console
        self._engine = engine
        self._line: WeightsLine = line_on(context.console.err)
        self.state = m.UpdateState(version="")

    def do(self, command: m.UpdateCommand) -> None:
        """Send a command and show how it goes, to its end.

        Raises:
            _Ended: It failed, or somebody pressed Ctrl-C.
        """
        self._engine.send(command)
        while not self._is_over(self._engine.next()):
            pass

    def _is_over(self, event: e.Event) -> bool:
        match event:
            case m.UpdateKnown(state=state):
                self.state = state
            case m.UpdateProgress():
                self._line.show(event)
            case Interrupted():
                self._engine.send(m.StopUpdate())
            case m.UpdateDone():
                self._line.clear()
                return True
            case m.UpdateFailed(error=error):
                self._line.clear()
                if self._console.json:
                    self._console.data({"error": error})
                self._console.error(error)
                raise _Ended(FAILED)
            case m.UpdateStopped():
                self._line.clear()
                self._console.note("Cancelled. What was loaded is kept, and goes on next time.")
                raise _Ended(CANCELLED)
        return False


@contextlib.contextmanager
def _talk(context: Context) -> Iterator[_Talk]:
    """An engine for these commands, closed at the end."""
    with session(context) as engine:
        yield _Talk(context, engine)
