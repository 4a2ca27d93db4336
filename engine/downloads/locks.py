"""Locks by name, held against other threads and other processes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import filelock

from engine.core.control import Control

_TRY_S = 0.5  # another process that only queries a lock holds it for an instant
_QUERY_S, _POLL_S = 0.05, 0.01  # so two processes that query do not take each other for owners
_querying = threading.Lock()  # nor do two threads


class AlreadyLocked(Exception):
    """Another thread or process holds the lock."""


class Locks:
    """A folder of lock files; the system releases a lock when its process ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def held(self, name: str, *, wait: Control | None = None) -> Iterator[None]:
        """Hold a lock while the block runs.

        Args:
            name: Of the lock.
            wait: Wait for the lock until this control is cancelled; None does not wait.

        Raises:
            AlreadyLocked: Another thread or process holds it.
            OSError: The folder cannot be written.
            Cancelled: While waiting.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = self._lock(name)
        while not _acquired(lock):
            if wait is None:
                raise AlreadyLocked(name)
            wait.check()
        try:
            yield
        finally:
            lock.release()

    def is_held(self, name: str) -> bool:
        """True while a thread or process holds the lock, this one included."""
        lock = self._lock(name)
        if not Path(lock.lock_file).exists():
            return False
        with _querying:
            try:
                lock.acquire(timeout=_QUERY_S, poll_interval=_POLL_S)
            except filelock.Timeout:
                return True
            except OSError:  # a read-only folder
                return False
            lock.release()
        return False

    def _lock(self, name: str) -> filelock.BaseFileLock:
        return filelock.FileLock(self._folder / f"{name}.lock", thread_local=False)


def _acquired(lock: filelock.BaseFileLock) -> bool:
    try:
        lock.acquire(timeout=_TRY_S, poll_interval=_POLL_S)
    except filelock.Timeout:
        return False
    return True
