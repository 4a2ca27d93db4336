"""SHA-256 of large files, with progress and an end on demand."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from engine.core.control import Control
from engine.core.errors import WeightsUnreadable

Tell = Callable[[int, int], None]  # bytes done, bytes in all (0 while unknown)
Need = Callable[[int], None]  # refuses bytes that there is no room for

_PIECE_BYTES = 2**22


def silent(_done: int, _total: int) -> None:
    """A `Tell` that nobody listens to."""


def sha256_of(path: Path, tell: Tell = silent, control: Control | None = None) -> str:
    """SHA-256 of a file in hexadecimal digits.

    Raises:
        WeightsUnreadable, Cancelled: As `pieces`.
    """
    digest = hashlib.sha256()
    for piece in pieces(path, tell, control):
        digest.update(piece)
    return digest.hexdigest()


def pieces(path: Path, tell: Tell = silent, control: Control | None = None) -> Iterator[bytes]:
    """A file from its beginning to its end, in pieces of 4 MiB; `tell` hears after each.

    Raises:
        WeightsUnreadable: It has gone, may not be read, or the disk fails.
        Cancelled: `control` said so.
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
            tell(done, total)


def _piece(file: BinaryIO, path: Path) -> bytes:
    try:
        return file.read(_PIECE_BYTES)
    except OSError as err:
        raise _unreadable(path, err) from err


def _unreadable(path: Path, error: OSError) -> WeightsUnreadable:
    return WeightsUnreadable(
        f"{path.name} cannot be read.", hint=error.strerror or str(error), path=str(path)
    )
