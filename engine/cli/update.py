"""`update`: check for a newer version, download its setup, start it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from engine.cli.context import DONE, CommandContext
from engine.cli.options import add_verb
from engine.cli.tasks import TaskSession, task_session
from engine.core.units import bytes_text
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.tasks import TaskKind
from engine.protocol.update_state import UpdateState

_Ended = tuple[int, UpdateState]  # exit status, and the state of the update
_EXAMPLES = """examples:
  python -m engine update check                    show whether a newer version exists
  python -m engine update install                  download its setup and start it

Upreel checks for updates only with these commands and the button of the window. A setup is accepted
only if its description is signed with Upreel's key and its SHA-256 matches.
"""


def register(add: Callable[..., Any]) -> None:
    """Put `update` with its verbs on the command line."""
    command = add(
        "update", run, "check for a newer version of Upreel, download and install it", _EXAMPLES
    )
    verbs = command.add_subparsers(title="verbs", metavar="VERB", required=True)
    add_verb(verbs, "check", _check, "show whether a newer version exists")
    add_verb(verbs, "download", _download, "download its setup, or resume the download")
    add_verb(verbs, "install", _install, "start its setup; close other windows of Upreel first")


def run(args: argparse.Namespace, context: CommandContext) -> int:
    """Do one verb."""
    with task_session(context, TaskKind.UPDATE, prints_events=False) as tasks:
        status, state = args.verb(tasks)
    if status != DONE:
        return int(status)
    _show(state, context)
    if args.verb is _install and state.newer:
        path = context.services.start_update()
        context.console.note(f"{path.name} was started. Close all open windows of Upreel.")
    return DONE


def _check(tasks: TaskSession) -> _Ended:
    return _run(tasks, c.CheckUpdate())


def _download(tasks: TaskSession) -> _Ended:
    status, state = _check(tasks)
    if status == DONE and state.newer:
        return _run(tasks, c.DownloadUpdate())
    return status, state


def _install(tasks: TaskSession) -> _Ended:
    status, state = _check(tasks)
    if status != DONE or not state.newer:
        return status, state
    if state.installed_as == "setup" and not state.is_ready:
        status, state = _run(tasks, c.DownloadUpdate())
    return _run(tasks, c.InstallUpdate()) if status == DONE else (status, state)


def _run(tasks: TaskSession, command: c.UpdateCommand) -> _Ended:
    """Exit status, and the state of the update."""
    status = tasks.run(command)
    return status, tasks.ask(c.ShowUpdate(), e.UpdateKnown).state


def _show(state: UpdateState, context: CommandContext) -> None:
    console = context.console
    if console.json:
        console.data(state)
        return
    if not state.newer:
        console.say(f"Upreel {state.version} is the newest version.")
        return
    where = (
        "its setup is downloaded" if state.is_ready else f"{bytes_text(state.bytes)} to download"
    )
    console.say(f"Upreel {state.newer} of {state.date}; {where}. You have {state.version}.")
    console.say(*state.notes["en"].strip().splitlines())
