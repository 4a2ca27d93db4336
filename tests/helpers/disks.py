"""Drives that fail: reads, writes and disks that are full, in this process."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from engine.core import file_access
from engine.video.read import media_file


def system_error(number: int) -> OSError:
    """An error as the system raises it."""
    return OSError(number, os.strerror(number))


@dataclass(slots=True)
class FailingReads:
    """A file whose reads fail, or hang, from one on, some times or for good.

    Attributes:
        path: Of the file.
        first: Bytes that can be read before the first failure.
        times: How often a read fails there.
        number: Of the system's error.
        when_failing: Called before each failure.
        answers: Set where reads return at all; else they hang there until it is set.
        seen: How often it did.
    """

    path: Path
    first: int = 0
    times: int = 1 << 30
    number: int = errno.EIO
    when_failing: Callable[[], object] = lambda: None
    answers: threading.Event | None = None
    seen: int = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FailingReads:
        """Let files opened from now on behave so; without pauses, and read by 1 KiB."""
        real = Path.open

        def opened(path: Path, *args: Any, **options: Any) -> Any:
            file = real(path, *args, **options)
            return _Reads(file, self) if path == self.path else file

        monkeypatch.setattr(Path, "open", opened)
        monkeypatch.setattr(file_access, "PAUSES_S", (0.0, 0.0))
        monkeypatch.setattr(media_file, "_BUFFER_BYTES", 1024)
        return self


class _Reads:
    def __init__(self, file: IO[bytes], rule: FailingReads) -> None:
        self._file, self._rule = file, rule

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Reads:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read(self, count: int = -1) -> bytes:
        rule = self._rule
        at = self._file.tell()
        if at + max(0, count) > rule.first and rule.seen < rule.times:
            rule.seen += 1
            rule.when_failing()
            if rule.answers is not None:
                rule.answers.wait()
                return self._file.read(count)
            raise system_error(rule.number)
        return self._file.read(count)


def failing_once(
    monkeypatch: pytest.MonkeyPatch, place: object, name: str, error: Exception, *, after: int = 0
) -> Callable[[], int]:
    """Let a function raise an error at one call, after some that work; returns its count of calls.

    Args:
        monkeypatch: Of the test.
        place: Class or module that has the function.
        name: Of the function.
        error: Raised instead of the call.
        after: Calls that work before.
    """
    real, calls = getattr(place, name), 0

    def call(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == after + 1:
            raise error
        return real(*args, **options)

    monkeypatch.setattr(place, name, call)
    return lambda: calls


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A tmpfs that anybody may write to."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=1777", "tmpfs", str(folder)]
    is_root = os.name == "posix" and os.geteuid() == 0
    if not is_root or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can be made only as root on Linux")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


class Disk:
    """What the system says about the disk of a job."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free: int, total: int = 10**12) -> None:
        from engine.pipeline import room  # loads torch, which processes that read do without

        self.free = free

        def usage(_: object) -> SimpleNamespace:
            return SimpleNamespace(free=self.free, total=total)

        monkeypatch.setattr(room, "shutil", SimpleNamespace(disk_usage=usage))
        monkeypatch.setattr(room, "_POLL_S", 0.02)
