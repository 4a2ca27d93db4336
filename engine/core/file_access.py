"""Files and what the operating system says about them.

Its errors become errors for users by one table, from `errno` to code and case: where a file is read
or written, in `reading` and `writing`; what was not translated there, at the top of a thread, in
`reported`. Reads of a source are repeated: drives and network shares fail now and then.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, NoReturn, TypeVar

from engine.core import gpu_loss, paths
from engine.core.errors import (
    DiskFull,
    EngineError,
    InternalError,
    OutOfMemory,
    OutputError,
    OutputExists,
    OutputNameUnusable,
    OutputUnwritable,
    SourceMissing,
    SourceUnreadable,
    SystemRefusal,
    is_memory_refusal,
)
from engine.core.messages import Message, message

T = TypeVar("T")
logger = logging.getLogger(__name__)
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
_MARK_BYTES = 1 << 16  # at each end of a file
_SAMPLES = 64  # pieces of that size
_LOST = frozenset(getattr(errno, name, errno.EIO) for name in _LOST_NAMES.split())


def is_folder(path: Path) -> bool:
    """Whether there is such a folder; False where the system does not answer."""
    try:
        return path.is_dir()
    except OSError:
        return False


def check_can_add(folder: Path) -> None:
    """Ask the system whether a folder takes new files, without making one.

    Raises:
        OSError: The system's refusal: rights, or a drive that is only read.
    """
    if sys.platform == "win32":
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateFileW.restype = ctypes.c_void_p
        right, sharing, existing, folders = 0x2, 0x7, 3, 0x02000000  # FILE_ADD_FILE, all, open
        handle = kernel.CreateFileW(str(folder), right, sharing, None, existing, folders, None)
        if handle == ctypes.c_void_p(-1).value:
            raise ctypes.WinError(ctypes.get_last_error())
        kernel.CloseHandle(ctypes.c_void_p(handle))
    elif not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def is_disk_full(error: Exception) -> bool:
    """Whether there is no space left, or a quota is used up."""
    number = getattr(error, "errno", None)
    return number in _FULL or getattr(error, "winerror", None) in _FULL_WINDOWS


def write_error(error: Exception, path: Path) -> EngineError:
    """The error for users of one while writing.

    Args:
        error: An OSError, or an error of FFmpeg, which has an `errno` too.
        path: Path of the file, or of the folder that is written into.
    """
    number, reason, name = getattr(error, "errno", None), reason_of(error), path.name
    names_folder = is_folder(path)
    folder = paths.shown(path if names_folder else path.parent)
    if is_disk_full(error):
        if names_folder:
            return DiskFull("folder", folder=folder, path=path)
        return DiskFull("while-writing", name=name, path=path)
    if number == errno.ENOMEM:
        return OutOfMemory("running")
    if number == errno.EISDIR:
        return OutputExists("folder", name=name, path=path)
    if number in _NAME:
        return OutputNameUnusable("refused", name=name, reason=reason, path=path)
    if number == errno.EFBIG:
        return OutputUnwritable("too-large", name=name, folder=folder, path=path)
    if number in _MISSING or (number == errno.EEXIST and not is_folder(path.parent)):
        return OutputUnwritable("no-folder", folder=folder, path=path)
    if number in _DENIED:
        return OutputUnwritable("folder", folder=folder, reason=reason, path=path)
    if number in _LOST:
        return OutputUnwritable("lost", folder=folder, reason=reason, path=path)
    return OutputError("writing-failed", name=name, reason=reason, path=path)


def missing_source(path: Path) -> SourceMissing:
    """The error for users of a source that is not there."""
    folder = paths.shown(path.absolute().parent)
    return SourceMissing("no-such-file", name=path.name, folder=folder, path=path)


def read_error(error: OSError, path: Path) -> EngineError:
    """The error for users of one while reading a source."""
    if error.errno == errno.ENOMEM:
        return OutOfMemory("decoding", name=path.name, path=path)
    if error.errno in _MISSING | _NAME:
        return missing_source(path)
    if error.errno in (errno.EACCES, errno.EPERM):
        return SourceUnreadable("not-permitted", name=path.name, path=path)
    return SourceUnreadable("refused", name=path.name, reason=reason_of(error), path=path)


def reason_of(error: Exception) -> str | Message:
    """The words of the system, or what it did not answer."""
    if isinstance(error, NoAnswer):
        return message("reason.no-answer", seconds=f"{PATIENCE_S:.0f}")
    return str(getattr(error, "strerror", None) or error)


def content_mark(path: Path) -> str:
    """Identity of a file, whatever its name: its size and 128 KiB of its content.

    A file that was moved, copied or renamed keeps it.

    Returns:
        Bytes, and SHA-256 of the first and the last 64 KiB, as "4200000-9f86d0...".

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(_MARK_BYTES))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MARK_BYTES))
        digest.update(file.read(_MARK_BYTES))
    return f"{size}-{digest.hexdigest()}"


def sampled_mark(path: Path) -> str:
    """SHA-256 of 64 pieces of a file, evenly spread; of all of it up to 4 MiB.

    Raises:
        OSError: It cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        last = max(0, file.seek(0, os.SEEK_END) - _MARK_BYTES)
        step = max(_MARK_BYTES, last / (_SAMPLES - 1))
        for number in range(_SAMPLES):
            place = round(number * step)
            file.seek(min(place, last))
            digest.update(file.read(_MARK_BYTES))
            if place >= last:
                break
    return digest.hexdigest()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Translates errors of the system inside.

    Raises:
        EngineError: Result of `write_error`.
    """
    try:
        yield
    except OSError as err:
        raise write_error(err, path) from err


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Translates errors of the system inside.

    Raises:
        EngineError: Result of `read_error`.
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
        logger: Logger of the module that did it.
    """
    if isinstance(error, EngineError):
        logger.warning("%s: %s", what, error.message, exc_info=error)
        return error
    known = OutOfMemory("running") if is_memory_refusal(error) else gpu_loss.noticed(error)
    if known is not None:
        logger.warning("%s", what, exc_info=error)
        return known
    logger.error("%s", what, exc_info=error)
    if isinstance(error, OSError):
        return _untranslated(error)
    return InternalError("unexpected", kind=type(error).__name__)


def advised(look: Callable[[], T], otherwise: T) -> T:
    """Result of a call, or `otherwise` if it fails for whatever reason, which is logged.

    Whatever only advises (how well a source was coded, a preview, a rate to learn) goes through
    here, so that it never stops a job. A lack of memory counts too: the work itself meets it.
    """
    try:
        return look()
    except Exception:  # the libraries that look raise errors of every class
        logger.info("a look that only advises failed", exc_info=True)
        return otherwise


def _untranslated(error: OSError) -> EngineError:
    """Translation of an error of which only the system's text is known, and perhaps a file."""
    file, reason = error.filename, reason_of(error)
    if is_disk_full(error):
        return write_error(error, Path(file)) if isinstance(file, str) else DiskFull("somewhere")
    if isinstance(file, str):
        return SystemRefusal("file", file=paths.shown(file), reason=reason)
    return SystemRefusal("unnamed", reason=reason)


# --- calls that may never return

PATIENCE_S = 60.0  # more than a drive that wakes up, or a share that connects again, needs
CALLER = "file access"  # name of the threads that make such calls, and stay for the next ones


class NoAnswer(TimeoutError):
    """The system has not returned from a call: a drive or a network share hangs."""


class _Caller(threading.Thread):
    """Makes calls, one at a time, for threads that do not wait for ever."""

    def __init__(self) -> None:
        super().__init__(name=CALLER, daemon=True)  # one that hangs does not keep a program
        self.calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def run(self) -> None:
        while True:
            self.calls.get()()


_idle: list[_Caller] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads stay in the parent


def in_time(call: Callable[[], T]) -> T:
    """Return or raise the outcome of a system call that ends within `PATIENCE_S`.

    One that hangs keeps its thread, and whatever it uses, until it returns.

    Raises:
        NoAnswer: It does not return.
    """
    answer: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()  # cheaper than a Future

    def work() -> None:
        try:
            found = call()
            answer.put(lambda: found)
        except BaseException as err:  # noqa: BLE001 - raised again in the thread that waits
            answer.put(partial(_raise, err))

    try:
        caller = _idle.pop()
    except IndexError:
        caller = _Caller()
        try:
            caller.start()
        except (RuntimeError, MemoryError):  # there is no thread: rather wait than fail
            return call()
    caller.calls.put(work)
    try:
        outcome = answer.get(timeout=PATIENCE_S)
    except queue.Empty:
        raise NoAnswer(errno.ETIMEDOUT, "no answer") from None
    _idle.append(caller)
    return outcome()


def _raise(error: BaseException) -> NoReturn:
    try:
        raise error
    finally:
        del error  # else its traceback would keep it, and the other way round


# --- reads that are repeated

PAUSES_S = (0.0, 0.1, 0.5, 1.5, 4.0)  # before each further try
_PIECE_BYTES = 1 << 22


class RetryingFile:
    """A binary file that is opened again, at the same place, when a read fails.

    A read that does not return in time has failed too: it is not repeated, and nothing is read
    any more.

    What stays unreadable looks like the end of the file, because libraries below Python take no
    exceptions; `failure` says that it is not. The file must be the one that was opened first: one
    that became shorter or was replaced fails too.

    Attributes:
        name: Name with which FFmpeg opens exactly this file, also one named "a:b.mkv".
        size: Bytes, when it was opened.
        failure: Why a read failed for good; None while all is well.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.name = f"file:{path}"
        self.failure: OSError | None = None
        self._path, self._at = path, 0
        self._file: IO[bytes] | None = in_time(lambda: path.open("rb", 0))
        self._identity = _identity(self._file)
        self.size = self._identity[0]

    def read(self, count: int) -> bytes:
        """The next bytes, `count` at most; b"" at the end, and where they are unreadable.

        After the first failure each read is tried once: a drive that has gone is not waited for.
        """
        if isinstance(self.failure, NoAnswer):
            return b""
        pauses = PAUSES_S if self.failure is None else ()
        for pause in (*pauses, None):
            try:
                return self._read(count)
            except OSError as err:
                if isinstance(err, NoAnswer):
                    self._file = None  # closing it might wait for the read
                if pause is None or isinstance(err, NoAnswer):
                    self.failure = self.failure or err
                    break
            time.sleep(pause)
            self.close()
        return b""

    def read_all(self) -> bytes:
        """Everything from here to the end.

        Raises:
            OSError: A read failed for good.
        """
        pieces = []
        while piece := self.read(_PIECE_BYTES):
            pieces.append(piece)
        if self.failure is not None:
            raise self.failure
        return b"".join(pieces)

    def _read(self, count: int) -> bytes:
        if self._file is None:
            self._file = in_time(lambda: self._path.open("rb", 0))
            if _identity(self._file) != self._identity:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(self._path))
            self._seek()
        file = self._file
        data = in_time(lambda: file.read(count))
        if not data and count and self._at < self.size:
            raise OSError(errno.EIO, "the file became shorter", str(self._path))
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place; the new one, in bytes from the beginning."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = max(0, start + offset)
        self._seek()
        return self._at

    def _seek(self) -> None:
        """Go to the place in the file; to its end where the system refuses one far beyond it."""
        if self._file is None:
            return
        try:
            self._file.seek(self._at)
        except (OSError, OverflowError):
            self._file.seek(0, os.SEEK_END)

    def tell(self) -> int:
        """The place in bytes from the beginning."""
        return self._at

    def close(self) -> None:
        """Close it; a later read opens it again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __enter__(self) -> RetryingFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _identity(file: IO[bytes]) -> tuple[int, int, int]:
    about = os.fstat(file.fileno())
    return about.st_size, about.st_mtime_ns, about.st_ino
