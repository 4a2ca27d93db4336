"""Errors of the operating system as errors for users: one table, from `errno` to code and case.

Where a file is read or written, `reading` and `writing` translate; what nothing translated becomes
an error for users at the top of a thread, in `reported`.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.core import atomic_file, windows_paths
from engine.core.errors import (
    DiskFull,
    EngineError,
    InternalError,
    OutOfMemory,
    OutputError,
    OutputNameUnusable,
    OutputUnwritable,
    SourceMissing,
    SourceUnreadable,
    SystemRefused,
)

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_FULL_WINDOWS = frozenset({39, 112, 1295})  # "handle disk full", disk full, quota exceeded
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NAME = frozenset({errno.ENAMETOOLONG, errno.EILSEQ})
# No answer of the medium: a bad sector, a drive or a network share that has gone.
_LOST_NAMES = """
    EIO ENXIO ENODEV ENOMEDIUM EREMOTEIO ESTALE ETIMEDOUT ENOTCONN ECONNABORTED ECONNRESET
    EHOSTDOWN EHOSTUNREACH ENETDOWN ENETUNREACH ENETRESET ESHUTDOWN
"""
_LOST = frozenset(getattr(errno, name, errno.EIO) for name in _LOST_NAMES.split())


def is_disk_full(error: Exception) -> bool:
    """Whether there is no space left, or a quota is used up."""
    number = getattr(error, "errno", None)
    return number in _FULL or getattr(error, "winerror", None) in _FULL_WINDOWS


def write_error(error: Exception, path: Path) -> EngineError:
    """The error for users of one while writing.

    Args:
        error: An OSError, or an error of FFmpeg, which has an `errno` too.
        path: Of the file, or of the folder that is written into.
    """
    number, reason, name = getattr(error, "errno", None), reason_of(error), path.name
    is_folder = atomic_file.is_folder(path)
    folder = windows_paths.shown(path if is_folder else path.parent)
    if is_disk_full(error):
        if is_folder:
            return DiskFull("folder", folder=folder, path=path)
        return DiskFull("while-writing", name=name, path=path)
    if number == errno.ENOMEM:
        return OutOfMemory("running")
    if number in _NAME:
        return OutputNameUnusable("refused", name=name, reason=reason, path=path)
    if number == errno.EFBIG:
        return OutputUnwritable("too-large", name=name, folder=folder, path=path)
    if number in _MISSING:
        return OutputUnwritable("no-folder", folder=folder, path=path)
    if number in _DENIED:
        return OutputUnwritable("folder", folder=folder, reason=reason, path=path)
    if number in _LOST:
        return OutputUnwritable("lost", folder=folder, reason=reason, path=path)
    return OutputError("writing-failed", name=name, reason=reason, path=path)


def read_error(error: OSError, path: Path) -> EngineError:
    """The error for users of one while reading a source."""
    if error.errno == errno.ENOMEM:
        return OutOfMemory("decoding", name=path.name, path=path)
    if error.errno in _MISSING | _NAME:
        return SourceMissing("no-such-file", file=windows_paths.shown(path), path=path)
    if error.errno in (errno.EACCES, errno.EPERM):
        return SourceUnreadable("not-permitted", name=path.name, path=path)
    return SourceUnreadable("refused", name=path.name, reason=reason_of(error), path=path)


def reason_of(error: Exception) -> str:
    """The words of the system."""
    return str(getattr(error, "strerror", None) or error)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Translates errors of the system inside.

    Raises:
        EngineError: As `write_error`.
    """
    try:
        yield
    except OSError as err:
        raise write_error(err, path) from err


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Translates errors of the system inside.

    Raises:
        EngineError: As `read_error`.
    """
    try:
        yield
    except OSError as err:
        raise read_error(err, path) from err


def reported(error: Exception, what: str, logger: logging.Logger) -> EngineError:
    """Log what ended a piece of work; the error as the user gets it.

    Args:
        error: Any; one outside of the hierarchy is logged with its traceback.
        what: Name of the work, for the log.
        logger: Of the module that did it.
    """
    if isinstance(error, EngineError):
        logger.warning("%s: %s", what, error.message, exc_info=error)
        return error
    logger.error("%s", what, exc_info=error)
    if isinstance(error, OSError):
        return _untranslated(error)
    return InternalError("unexpected", kind=type(error).__name__)


def _untranslated(error: OSError) -> EngineError:
    """Of an error of which only the system's own words are known, and perhaps a file."""
    file, reason = error.filename, reason_of(error)
    if is_disk_full(error):
        return write_error(error, Path(file)) if isinstance(file, str) else DiskFull("somewhere")
    if error.errno == errno.ENOMEM:
        return OutOfMemory("running")
    if isinstance(file, str):
        return SystemRefused("file", file=windows_paths.shown(file), reason=reason)
    return SystemRefused("unnamed", reason=reason)
