"""SHA-256 of large files, with progress and an end on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from engine.control import Control
from engine.errors import WeightsUnreadable

Tell = Callable[[int, int], None]  # bytes done, bytes in all (0 while unknown)
Eat = Callable[[bytes], object]
Need = Callable[[int], None]  # refuses bytes that there is no room for

_PIECE_BYTES = 2**22


def silent(_done: int, _total: int) -> None:
    """A `Tell` that nobody listens to."""


def sha256_of(
    path: Path,
    *,
    tell: Tell = silent,
    control: Control | None = None,
    eat: Eat = lambda _: None,
) -> str:
    """SHA-256 of a file in hexadecimal digits; `eat` gets every piece as well.

    Raises:
        WeightsUnreadable: It has gone, may not be read, or the disk fails.
        Cancelled: `control` said so.
    """
    control = control or Control()
    digest, done = hashlib.sha256(), 0
    try:
        total = path.stat().st_size
        file = path.open("rb")
    except OSError as err:
        raise _unreadable(path, err) from err
    with file:
        while piece := _piece(file, path):
            control.check()
            digest.update(piece)
            eat(piece)
            done += len(piece)
            tell(done, total)
    return digest.hexdigest()


def _piece(file: BinaryIO, path: Path) -> bytes:
    try:
        return file.read(_PIECE_BYTES)
    except OSError as err:
        raise _unreadable(path, err) from err


def _unreadable(path: Path, error: OSError) -> WeightsUnreadable:
    return WeightsUnreadable(
        f"{path.name} cannot be read.", hint=error.strerror or str(error), path=str(path)
    )
