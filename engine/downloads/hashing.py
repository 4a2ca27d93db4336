"""SHA-256 of large files, with progress and cancel."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from engine.core.control import Control
from engine.core.errors import WeightsUnreadable

OnProgress = Callable[[int, int], None]
"""Called with bytes done and bytes in total (0 while unknown)."""

_PIECE_BYTES = 2**22


def ignore_progress(_done: int, _total: int) -> None:
    """An `OnProgress` without effect."""


def sha256_of(
    path: Path, on_progress: OnProgress = ignore_progress, control: Control | None = None
) -> str:
    """SHA-256 of a file in hexadecimal digits.

    Raises:
        WeightsUnreadable, Cancelled: As `pieces`.
    """
    digest = hashlib.sha256()
    for piece in pieces(path, on_progress, control):
        digest.update(piece)
    return digest.hexdigest()


def pieces(
    path: Path, on_progress: OnProgress = ignore_progress, control: Control | None = None
) -> Iterator[bytes]:
    """A file from beginning to end in pieces of 4 MiB; progress is reported after each.

    Raises:
        WeightsUnreadable: The file is missing, may not be read, or the disk fails.
        Cancelled: The control was cancelled.
    """
    control = control or Control()
    try:
        file = path.open("rb")
        total = os.fstat(file.fileno()).st_size
    except OSError as err:
        raise _unreadable(path, err) from err
    done = 0
    with file:
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


def _unreadable(path: Path, error: OSError) -> WeightsUnreadable:
    return WeightsUnreadable("reason", name=path.name, reason=error.strerror or error, path=path)
