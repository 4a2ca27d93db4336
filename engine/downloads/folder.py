"""A folder that files are downloaded into: their names, locks, free space, errors of the disk."""

from __future__ import annotations

import contextlib
import glob
import itertools
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import ClassVar

import filelock

from engine.core import atomic_file
from engine.core.control import Control
from engine.core.errors import DiskFull, EngineError, OutputUnwritable
from engine.core.file_access import is_disk_full

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


_PART, _DAMAGED = ".part", ".damaged-"


class DownloadFolder(ABC):
    """A file in it has its own name only while its content is right, as far as was checked.

    `<name>.part` is an unfinished download, `<name>.damaged-<time>` a file whose SHA-256 was wrong.
    What the folder is for decides the messages of its errors: a subclass has them.

    Attributes:
        folder: Where it is; it need not exist yet.
        reserve_bytes: Space that stays free on its disk.
    """

    reserve_bytes: ClassVar[int]

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._locks = Locks(self.folder / ".locks")

    # --- names

    def target(self, name: str) -> Path:
        """Path of a complete file."""
        return self.folder / name

    def part(self, name: str) -> Path:
        """Path of an unfinished download."""
        return self.folder / f"{name}{_PART}"

    def owns(self, path: Path) -> bool:
        """True for files in this folder."""
        return path.parent == self.folder

    def damaged(self, name: str) -> list[Path]:
        """Files that were quarantined, the newest first."""
        return sorted(self.folder.glob(f"{glob.escape(name)}{_DAMAGED}*"), reverse=True)

    def files_of(self, name: str) -> set[Path]:
        """Every file of a name: complete, unfinished and quarantined."""
        found = (self.target(name), self.part(name), *self.damaged(name))
        return {path for path in found if path.is_file()}

    # --- locks

    @contextlib.contextmanager
    def held(self, name: str, *, wait: Control | None = None) -> Iterator[None]:
        """Keep other processes, and other threads of this one, away from a file.

        Args:
            name: Of the lock: one name for all that belongs together.
            wait: Wait for the lock until this control is cancelled; None does not wait.

        Raises:
            EngineError: `busy`: another thread or process holds it.
            DiskFull, OutputUnwritable: The folder cannot be written.
            Cancelled: While waiting.
        """
        with contextlib.ExitStack() as stack:
            try:
                with self.writing():
                    stack.enter_context(self._locks.held(name, wait=wait))
            except AlreadyLocked as err:
                raise self.busy(name) from err
            yield

    def is_held(self, name: str) -> bool:
        """True while a thread or process holds the lock."""
        return self._locks.is_held(name)

    # --- space and writing

    def free_bytes(self) -> int:
        """Free space on the disk of the folder; 0 when unknown."""
        for folder in (self.folder, *self.folder.parents):
            with contextlib.suppress(OSError):
                return shutil.disk_usage(folder).free
        return 0

    def need(self, bytes_: int) -> None:
        """Refuse what the disk cannot take.

        Raises:
            DiskFull: Less than that and the reserve is free.
        """
        free = self.free_bytes()
        if free < bytes_ + self.reserve_bytes:
            raise self.too_small(free, bytes_)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Create the folder and translate errors of the system while the block writes into it.

        Raises:
            DiskFull, OutputUnwritable: The block raised an OSError.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as err:
            raise self.write_error(err) from err

    def write_error(self, error: OSError) -> EngineError:
        """An error of the system as an error for users."""
        if is_disk_full(error):
            return DiskFull("while-downloading", folder=self.folder)
        return self.unwritable(error.strerror or str(error))

    def quarantine(self, path: Path, name: str) -> Path:
        """Rename a file whose content is wrong; its new path.

        Raises:
            DiskFull, OutputUnwritable: It cannot be renamed.
        """
        stamp = f"{name}{_DAMAGED}{datetime.now():%Y%m%d-%H%M%S}"
        names = itertools.chain([stamp], (f"{stamp}-{number}" for number in itertools.count(2)))
        aside = next(p for p in map(self.target, names) if not p.exists())
        with self.writing():
            atomic_file.replace(path, aside)
        return aside

    def delete(self, name: str) -> None:
        """Delete every file of a name.

        Raises:
            OutputUnwritable: One cannot be deleted.
        """
        for path in self.files_of(name):
            with self.writing():
                path.unlink(missing_ok=True)

    # --- errors

    @abstractmethod
    def busy(self, name: str) -> EngineError:
        """Another thread or process holds a lock."""

    @abstractmethod
    def too_small(self, free: int, needed: int) -> DiskFull:
        """The disk has too little space; both in bytes, without the reserve."""

    @abstractmethod
    def unwritable(self, why: str) -> OutputUnwritable:
        """The folder cannot be written."""


def is_complete(path: Path) -> bool:
    """True for a file under its own name: neither unfinished nor quarantined."""
    return path.suffix != _PART and _DAMAGED not in path.name
