"""Output files: errors of writing as our own, and files that a power cut cannot take back."""

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
    """Turns errors of FFmpeg and the system inside into errors about the file being written.

    Raises:
        DiskFull: No space left, also as a quota or as the largest file of the file system.
        OutputUnwritable: The system does not permit writing there.
        OutputError: Any other refusal of FFmpeg or the system.
    """
    try:
        yield
    except (FFmpegError, OSError) as err:
        raise _translated(err, path) from err


def _translated(err: FFmpegError | OSError, path: Path) -> OutputError:
    if err.errno in _FULL:
        return DiskFull("while-writing", name=path.name, path=path)
    if err.errno in _REFUSED:
        return OutputUnwritable("refused", file=windows_paths.shown(path), path=path)
    reason = err.strerror or str(err)
    return OutputError("writing-failed", name=path.name, reason=reason, path=path)


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
