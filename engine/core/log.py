"""Logging: one format, one file for the program; `job_log` adds a file for one job.

`UPREEL_LOG` chooses what is logged: debug, info (as without it), warning or error.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import logging.handlers
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from engine.core import paths
from engine.core.plain_text import one_line

_LARGEST_BYTES = 1_000_000  # of the program's file
_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_INDENT = "    "  # of lines that belong to a record
_VARIABLE = "UPREEL_LOG"
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

logger = logging.getLogger(__name__)


class _Plain(logging.Formatter):
    """Records as plain text: a message is one line, and lines that belong to it are indented.

    So nothing that a message quotes looks like a record. A text of several lines, such as a
    traceback without `exc_info`, belongs into `extra={"details": text}`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record in one format."""
        record.message, record.asctime = record.getMessage(), self.formatTime(record)
        details = [getattr(record, "details", ""), record.stack_info or ""]
        details += [self.formatException(record.exc_info)] if record.exc_info else []
        below = [line for text in details if text for line in text.rstrip("\n").split("\n")]
        shown = [
            one_line(self.formatMessage(record)),
            *(_INDENT + one_line(line) for line in below),
        ]
        return "\n".join(shown)


def setup(*, is_verbose: bool = False) -> None:
    """Log to the program's file (1 MB, three backups).

    Without a writable folder the program starts without a log file.

    Args:
        is_verbose: Whether all records go to standard error, too.
    """
    root = logging.getLogger()
    choose_level()
    root.addHandler(logging.NullHandler())  # without any, warnings are on standard error
    with contextlib.suppress(OSError):
        paths.logs_folder().mkdir(parents=True, exist_ok=True)
        root.addHandler(_LogFile(paths.logs_folder() / "upreel.log", _LARGEST_BYTES))
    note_crashes()
    if is_verbose:
        root.addHandler(_formatted(logging.StreamHandler()))
    word = os.environ.get(_VARIABLE, "")
    if word.lower() not in ("", *_LEVELS):
        logger.warning("%s=%s is none of %s", _VARIABLE, word, ", ".join(_LEVELS))


def choose_level() -> None:
    """Let this process log from the level of `UPREEL_LOG` on."""
    word = os.environ.get(_VARIABLE, "").lower()
    logging.getLogger().setLevel(_LEVELS.get(word, logging.INFO))


def note_crashes() -> None:
    """Let this process write down where all its threads were when a library crashed."""
    if faulthandler.is_enabled():
        return
    with contextlib.suppress(OSError):
        paths.logs_folder().mkdir(parents=True, exist_ok=True)
        faulthandler.enable((paths.logs_folder() / "crash.log").open("a", encoding="utf-8"))


@contextlib.contextmanager
def job_log(folder: Path, name: str = "job") -> Iterator[None]:
    """Copy all log records inside to `folder`/job.log, as far as the disk takes it.

    Args:
        folder: Folder of the job.
        name: Name of the file, for another process of the job.
    """
    handler = _LogFile(folder / f"{name}.log")
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


class _LogFile(logging.handlers.RotatingFileHandler):
    """A file of the log that may lack records: a disk that refuses them never stops the work.

    Args:
        path: Opened with the first record.
        largest_bytes: After which a new one is begun, and three old ones kept; 0 for no limit.
    """

    def __init__(self, path: Path, largest_bytes: int = 0) -> None:
        super().__init__(path, maxBytes=largest_bytes, backupCount=3, encoding="utf-8", delay=True)
        _formatted(self)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - a name of logging
        """Say nothing of an error of the system; other ones are mistakes of ours."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        """Close the file; what it does not take is lost."""
        with contextlib.suppress(OSError):
            super().close()


def _formatted(handler: logging.Handler) -> logging.Handler:
    handler.setFormatter(_Plain(_FORMAT))
    return handler
