"""One at a time at each model file: among threads and among programs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import filelock

from engine.core.control import Control
from engine.core.errors import WeightsBusy

_TRY_S = 0.5  # whoever only looks whether a file is busy holds the lock for an instant
_LOOK_S, _POLL_S = 0.05, 0.01  # so two programs that look do not take each other for one at work
_looking = threading.Lock()  # nor do two threads


class Locks:
    """A folder of lock files; the system lets go of a lock when its program dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def held(self, name: str, *, wait: Control | None = None) -> Iterator[None]:
        """Keep everybody else away meanwhile.

        Args:
            name: Of what.
            wait: Wait for others until this control is cancelled; None refuses.

        Raises:
            WeightsBusy: Somebody is at it.
            OSError: The folder cannot be written.
            Cancelled: While waiting.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = self._lock(name)
        while not _acquired(lock):
            if wait is None:
                raise WeightsBusy(
                    "Upreel is at work on this model file already.",
                    hint="Wait until that has finished, or stop it.",
                    file=name,
                )
            wait.check()
        try:
            yield
        finally:
            lock.release()

    def is_held(self, name: str) -> bool:
        """True while somebody is at it, this program included."""
        lock = self._lock(name)
        if not Path(lock.lock_file).exists():
            return False
        with _looking:
            try:
                lock.acquire(timeout=_LOOK_S, poll_interval=_POLL_S)
            except filelock.Timeout:
                return True
            except OSError:  # a folder that can only be read
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
