"""SHA-256 of large files, with progress and cancel."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from engine.core.control import Control
from engine.core.errors import EngineError, OutOfMemory, WeightsUnreadable, is_memory_refusal

OnProgress = Callable[[int, int], None]
"""Called with bytes done and bytes in total (0 while unknown)."""

_PIECE_BYTES = 2**22


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """What shows that a file is another one than before, or was written to.

    Attributes:
        bytes, modified_ns: Its size and time of change, which a user can set.
        changed_ns: What a user cannot set: on POSIX the time of the last change of any kind, also
            of its name; on Windows that of its creation.
    """

    bytes: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, file: BinaryIO | Path) -> Self:
        """That of a file.

        Raises:
            OSError: It is not there.
        """
        about = file.stat() if isinstance(file, Path) else os.fstat(file.fileno())
        # TRAP: on Windows st_ctime is that of creation for a path, that of change for an open file.
        changed: int = getattr(about, "st_birthtime_ns", about.st_ctime_ns)
        return cls(bytes=about.st_size, modified_ns=about.st_mtime_ns, changed_ns=changed)


def ignore_progress(_done: int, _total: int) -> None:
    """An `OnProgress` without effect."""


def sha256_of(
    path: Path, on_progress: OnProgress = ignore_progress, control: Control | None = None
) -> str:
    """SHA-256 of a file in hexadecimal digits.

    Raises:
        WeightsUnreadable, Cancelled: As `pieces`.
    """
    with hashed(path, on_progress, control) as (_, digest):
        return digest


@contextmanager
def hashed(
    path: Path, on_progress: OnProgress = ignore_progress, control: Control | None = None
) -> Iterator[tuple[BinaryIO, str]]:
    """An open file and its SHA-256: what the block reads of it is what was hashed.

    Whatever takes its name meanwhile is another file.

    Raises:
        WeightsUnreadable: As `pieces`; or it was changed until the block ended.
        Cancelled: The control was cancelled.
    """
    with _opened(path) as file:
        before, digest = FileIdentity.of(file), hashlib.sha256()
        for piece in _pieces(file, path, on_progress, control):
            digest.update(piece)
        file.seek(0)
        yield file, digest.hexdigest()
        if FileIdentity.of(file) != before:
            raise WeightsUnreadable("changed", name=path.name, path=path)


def pieces(
    path: Path, on_progress: OnProgress = ignore_progress, control: Control | None = None
) -> Iterator[bytes]:
    """A file from beginning to end in pieces of 4 MiB; progress is reported after each.

    Raises:
        WeightsUnreadable: The file is missing, may not be read, or the disk fails.
        Cancelled: The control was cancelled.
    """
    with _opened(path) as file:
        yield from _pieces(file, path, on_progress, control)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as err:
        raise _unreadable(path, err) from err


def _pieces(
    file: BinaryIO, path: Path, on_progress: OnProgress, control: Control | None
) -> Iterator[bytes]:
    control = control or Control()
    total, done = os.fstat(file.fileno()).st_size, 0
    while piece := _piece(file, path):
        control.check()
        yield piece
        done += len(piece)
        on_progress(done, total)


def _piece(file: BinaryIO, path: Path) -> bytes:
    try:
        return file.read(_PIECE_BYTES)
    except OSError as err:
        raise _unreadable(path, err) from err


def _unreadable(path: Path, error: OSError) -> EngineError:
    if is_memory_refusal(error):
        return OutOfMemory("file", name=path.name, path=path)
    return WeightsUnreadable("reason", name=path.name, reason=error.strerror or error, path=path)
