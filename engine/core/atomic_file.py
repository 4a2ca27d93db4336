"""Files that are written atomically: first under another name, then renamed in one step.

Windows refuses to rename while another process has one of the two files open: a virus scanner the
new one, a reader the old one. That passes, so renaming is retried for some time.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_HELD = {5, 32, 33}  # ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION
_RETRY_S = 10.0  # a scanner reads files of many GB
_RETRY_SMALL_FILES_S = 1.0  # settings are written in the thread of the window
_RETRY_EVERY_S = 0.05
_LONGEST_SUFFIX = 8


def replace(part: Path, target: Path) -> None:
    """Give a finished file its name; an existing file of that name is replaced.

    Raises:
        OSError: The system refuses, on Windows for 10 s; both files are unchanged.
    """
    _retried(lambda: part.replace(target), _RETRY_S)


def rename(source: Path, target: Path) -> None:
    """Give a finished file or folder an unused name.

    Raises:
        FileExistsError: The name is in use; both are unchanged.
        OSError: Error of `replace`.
    """
    if os.name == "posix" and not source.is_dir() and _linked(source, target):
        return
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    _retried(lambda: source.rename(target), _RETRY_S)


def write_bytes(path: Path, content: bytes, *, is_private: bool = False) -> None:
    """Write a file: a reader sees the old or the new one, also after a power failure.

    Args:
        path: Path of the file.
        content: All of it.
        is_private: No other user may read it; Windows keeps them from the user's folders anyway.

    Raises:
        OSError: The disk refuses; the old file is unchanged.
    """
    if not path.name:  # "." and "/"
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    part = path.with_name(part_name(secrets.token_hex(6)))
    try:
        part.touch(0o600 if is_private else 0o666)
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _retried(lambda: part.replace(path), _RETRY_SMALL_FILES_S)
    except BaseException:
        discard(part)
        raise


def part_name(key: str, suffix: str = "") -> str:
    """A name for an unfinished file: short, so that it fits wherever the final name does.

    Args:
        key: Text that distinguishes it from other unfinished files of the folder.
        suffix: Suffix of the final name, for programs that go by it; a long one is left out.
    """
    return f"upreel-{key}.part{suffix if len(suffix) <= _LONGEST_SUFFIX else ''}"


def discard(path: Path) -> None:
    """Delete an unfinished file or folder, as far as the system permits.

    Never raises OSError: what made it useless is the error that counts.
    """
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8 with its line endings unchanged, as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_json(path: Path, data: Any, *, indent: int | None = None) -> None:
    """Write plain data, as `write_bytes` does."""
    write_text(path, json.dumps(data, indent=indent))


def _linked(source: Path, target: Path) -> bool:
    """Rename by a hard link, since POSIX renames over existing files; False where links fail."""
    try:
        target.hardlink_to(source)
    except FileExistsError:
        if not target.samefile(source):
            raise  # else the program ended between the two steps the last time
    except OSError:
        return False  # FAT, some network drives
    source.unlink()
    return True


def _retried(rename: Callable[[], object], seconds: float) -> None:
    last = time.monotonic() + seconds
    while True:
        try:
            rename()
            return
        except PermissionError as err:
            if getattr(err, "winerror", 0) not in _HELD or time.monotonic() > last:
                raise
        time.sleep(_RETRY_EVERY_S)
