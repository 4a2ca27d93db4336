"""Files that appear whole: written beside under another name, then renamed in one step.

Windows refuses to rename while somebody has one of the two files open: a scanner for viruses what
was just written, a reader what is there. That passes, so it is tried again for a while.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_HELD = {5, 32, 33}  # ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION
_PATIENCE_S = 10.0  # a scanner reads files of many GB
_PATIENCE_WITH_SMALL_FILES_S = 1.0  # settings are written in the thread of the window
_TRY_EVERY_S = 0.05


def replace(part: Path, target: Path) -> None:
    """Give a finished file its name; what bears that name is no more.

    Raises:
        OSError: The system refuses, on Windows for 10 s; both are as they were.
    """
    _patiently(lambda: part.replace(target), _PATIENCE_S)


def rename(source: Path, target: Path) -> None:
    """Give a finished file or folder a name that nothing bears.

    Raises:
        FileExistsError: Something bears it; both are as they were.
        OSError: As `replace`.
    """
    if os.name == "posix" and not source.is_dir() and _linked(source, target):
        return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    _patiently(lambda: source.rename(target), _PATIENCE_S)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file: a reader, or who looks after a power cut, sees the old one or the new one.

    Raises:
        OSError: The disk refuses; the old file is as it was.
    """
    part = path.with_name(f"{path.name}.{threading.get_native_id()}.part")  # nobody else's
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _patiently(lambda: part.replace(path), _PATIENCE_WITH_SMALL_FILES_S)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8, its ends of lines as they are, as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_json(path: Path, data: Any, *, indent: int | None = None) -> None:
    """Write plain data, as `write_bytes` does."""
    write_text(path, json.dumps(data, indent=indent))


def _linked(source: Path, target: Path) -> bool:
    """By a hard link, since POSIX renames over what is there; False where there are no links."""
    try:
        target.hardlink_to(source)
    except FileExistsError:
        raise
    except OSError:
        return False  # FAT, some network drives
    source.unlink()
    return True


def _patiently(rename: Callable[[], object], patience_s: float) -> None:
    last = time.monotonic() + patience_s
    while True:
        try:
            rename()
            return
        except PermissionError as err:
            if getattr(err, "winerror", 0) not in _HELD or time.monotonic() > last:
                raise
        time.sleep(_TRY_EVERY_S)
