"""Errors of writing, as FFmpeg and the system say them, turned into ours at one place."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from av.error import FFmpegError

from engine.core import atomic_file, windows_paths
from engine.core.errors import DiskFull, OutputError, OutputUnwritable

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR})


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what goes wrong inside into errors about the file that is being written.

    Raises:
        DiskFull: No space left, also as a quota or as the largest file of the file system.
        OutputUnwritable: The system does not let us write there.
        OutputError: Anything else that FFmpeg or the system refuses.
    """
    try:
        yield
    except (FFmpegError, OSError) as err:
        raise _translated(err, path) from err


def _translated(err: FFmpegError | OSError, path: Path) -> OutputError:
    if err.errno in _FULL:
        return DiskFull(
            f"There is no space left while writing {path.name}.",
            hint="Free some space on that drive, then continue the job.",
            path=path,
        )
    if err.errno in _REFUSED:
        return OutputUnwritable(
            f"{windows_paths.shown(path)} cannot be written.",
            hint="Choose another folder, or check its permissions.",
            path=path,
        )
    return OutputError(
        f"Writing {path.name} failed: {err.strerror or err}.",
        hint="Choose another codec or kind of file; the log has the details.",
        path=path,
    )


def rename_durably(path: Path, name: Path) -> None:
    """Give a closed file its name in the same folder so that a power cut takes neither back."""
    make_durable(path)
    atomic_file.replace(path, name)
    if os.name == "posix":  # Windows keeps the folder itself safe
        folder = os.open(name.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def make_durable(path: Path) -> None:
    """Wait until a closed file is on the disk, so that a power cut cannot take it back."""
    handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
