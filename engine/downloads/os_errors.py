"""What the system refuses when a folder of ours is written to, as an error for people."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.core.errors import DiskFull, EngineError, OutputUnwritable


@contextlib.contextmanager
def writing(folder: Path, refused: Callable[[Path, OSError], EngineError]) -> Iterator[None]:
    """Where such a folder is written to; it is made first.

    Args:
        folder: Ours.
        refused: The error for people, of the folder and what the system said.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as err:
        raise refused(folder, err) from err


def refusal(folder: Path, error: OSError, otherwise: OutputUnwritable) -> EngineError:
    """A full disk by its name, anything else as the owner of the folder says it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(
            f"The disk of {folder} is full.",
            hint="Free some space; what was loaded is kept, and the next try goes on from there.",
            path=folder,
        )
    return otherwise
