"""Turns arguments into an exit status; handles errors that no command handles."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.cli import context, parser
from engine.cli.console import Console, standard, utf8_console
from engine.cli.context import CommandContext
from engine.core import log, paths
from engine.core.errors import EngineError, InternalError, SettingsError
from engine.core.file_access import reported
from engine.core.messages import for_command_line
from engine.settings.store import load_engine_settings

if TYPE_CHECKING:
    from engine.cli.services import ApiServices

logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments; those of the process when None.

    Returns:
        Exit status: 0 done, 1 failed, 2 wrong usage, 130 cancelled.
    """
    with utf8_console():
        return run(sys.argv[1:] if argv is None else argv, _services)


@for_command_line()
def run(argv: Sequence[str], services: Callable[[], ApiServices]) -> int:
    """Does what `main` does, with an engine of the caller's."""
    try:
        standard()  # help and usage errors are UTF-8 too
        commands = parser.build()
        if not argv:
            commands.print_help(sys.stderr)
            return context.WRONG_USAGE
        args = commands.parse_args(argv)
        if not hasattr(args, "run"):
            commands.error("a command is missing")
        is_verbose = "verbose" in args
        log.setup(is_verbose=is_verbose)
        console = standard(json=args.json, is_verbose=is_verbose)
        return _command(args, console, services)
    except SystemExit as end:  # argparse has printed why
        _flush()
        return end.code if isinstance(end.code, int) else context.FAILED
    except KeyboardInterrupt:  # before there is a command; it has its own way to end
        return context.CANCELLED
    except BrokenPipeError:  # of a help text that is longer than the buffer
        _silence()
        return context.FAILED


def _command(
    args: argparse.Namespace, console: Console, services: Callable[[], ApiServices]
) -> int:
    try:
        return int(args.run(args, CommandContext(console=console, services=services())))
    except KeyboardInterrupt:
        console.note("Cancelled.")
        return context.CANCELLED
    except BrokenPipeError:
        _silence()
        return context.FAILED
    except EngineError as err:
        return _failed(console, err)
    except Exception as err:  # noqa: BLE001 - the outermost frame: a code and a log
        error = reported(err, "internal error in a command", logger)
        if isinstance(error, InternalError):
            error = InternalError("command", folder=paths.logs_folder())
        return _failed(console, error)


def _flush() -> None:
    """Write what waits now: at exit the error of a closed pipe could not be caught."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()


def _silence() -> None:
    """The reader of the output has gone; nothing may be flushed into the pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _failed(console: Console, error: EngineError) -> int:
    with contextlib.suppress(OSError):  # perhaps it is the output that cannot be written
        if console.json:
            console.data({"error": error.info()})
    with contextlib.suppress(OSError):
        console.error(error)
    return context.FAILED


def _services() -> ApiServices:
    from engine.cli.services import ApiServices

    with contextlib.suppress(SettingsError):  # said where the settings are used
        paths.choose_jobs_folder(load_engine_settings().job_folder)
    return ApiServices()
