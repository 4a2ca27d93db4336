"""Life cycle of files that are downloaded: model files, runtimes and updates share it.

An `ArtifactKind` declares what differs between them. An `ArtifactFolder` has the rest: names, locks
between processes, space on the disk, what is downloaded so far, quarantine and removal. `ensure`
downloads into it. A file has its own name only while its content is right, as far as was checked:
`<name>.part` is an unfinished download, `<name>.damaged-<time>` a file whose SHA-256 was wrong.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import filelock

from engine.core import atomic_file
from engine.core.control import Control
from engine.core.errors import (
    DiskFull,
    DownloadFailed,
    EngineError,
    HashMismatch,
    OutputUnwritable,
)
from engine.core.file_access import is_disk_full
from engine.core.units import bytes_text
from engine.files.hashing import PartFile, sha256_of
from engine.files.transfer import Listener, RemoteFile, Transfer, host

logger = logging.getLogger(__name__)

_PART, _DAMAGED = ".part", ".damaged-"
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
            name: Name of the lock.
            wait: Wait for the lock until this control is cancelled; None does not wait.

        Raises:
            AlreadyLocked: Another thread or process holds it.
            OSError: The folder cannot be written.
            Cancelled: The control was cancelled.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = self._lock(name)
        while True:
            with contextlib.suppress(filelock.Timeout):
                lock.acquire(timeout=_TRY_S, poll_interval=_POLL_S)
                break
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactKind:
    """Declaration of one kind of artifact."""

    reserve_bytes: int  # space that stays free on the disk
    busy: Callable[[str], EngineError]  # error where another one holds the lock of this name
    disk_full: str  # case of `DiskFull` before a download
    unwritable: str  # case of `OutputUnwritable`
    states_reserve: bool = False  # the reserve is part of the space that `DiskFull` asks for
    filled: str = "while-downloading"  # case of `DiskFull` where writing fills the disk


class ArtifactFolder:
    """Folder of artifacts of one kind; it need not exist yet."""

    def __init__(self, folder: Path, kind: ArtifactKind) -> None:
        self.folder = folder.absolute()
        self._kind = kind
        self._locks = Locks(self.folder / ".locks")

    # --- names and state

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

    def has(self, file: RemoteFile) -> bool:
        """True where a file has its name and size; its content is not read."""
        path = self.target(file.name)
        return path.is_file() and path.stat().st_size == file.bytes

    def done_bytes(self, file: RemoteFile) -> int:
        """Bytes of a file that are downloaded; quarantined ones do not count."""
        part = self.part(file.name)
        if self.has(file):
            return file.bytes
        return part.stat().st_size if part.is_file() else 0

    # --- locks

    @contextlib.contextmanager
    def held(self, name: str, *, wait: Control | None = None) -> Iterator[None]:
        """Keep other processes, and other threads of this one, away from a file.

        Args:
            name: Name of the lock: one for all that belongs together.
            wait: Wait for the lock until this control is cancelled; None does not wait.

        Raises:
            EngineError: `ArtifactKind.busy`: another thread or process holds it.
            DiskFull, OutputUnwritable: The folder cannot be written.
            Cancelled: The control was cancelled.
        """
        with contextlib.ExitStack() as stack:
            try:
                with self.writing():
                    stack.enter_context(self._locks.held(name, wait=wait))
            except AlreadyLocked as err:
                raise self._kind.busy(name) from err
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
        """Refuse what the disk cannot take; raises DiskFull where the reserve would be used."""
        free, reserve = self.free_bytes(), self._kind.reserve_bytes
        if free < bytes_ + reserve:
            needed = bytes_ + (reserve if self._kind.states_reserve else 0)
            space = {"free": bytes_text(free), "needed": bytes_text(needed)}
            raise DiskFull(self._kind.disk_full, folder=self.folder, **space)

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
            return DiskFull(self._kind.filled, folder=self.folder)
        reason = error.strerror or str(error)
        return OutputUnwritable(self._kind.unwritable, folder=self.folder, reason=reason)

    def quarantine(self, path: Path, name: str) -> Path:
        """Rename a file whose content is wrong; its new path."""
        stamp = f"{name}{_DAMAGED}{datetime.now():%Y%m%d-%H%M%S}"
        names = itertools.chain([stamp], (f"{stamp}-{number}" for number in itertools.count(2)))
        aside = next(p for p in map(self.target, names) if not p.exists())
        with self.writing():
            atomic_file.replace(path, aside)
        return aside

    def delete(self, name: str) -> None:
        """Delete every file of a name."""
        for path in self.files_of(name):
            with self.writing():
                path.unlink(missing_ok=True)


def is_complete(path: Path) -> bool:
    """True for a file under its own name: neither unfinished nor quarantined."""
    return path.suffix != _PART and _DAMAGED not in path.name


# --- downloads


def ensure(file: RemoteFile, folder: ArtifactFolder, listener: Listener) -> Path:
    """Path of a complete file with the right content: the one in the folder, else a download.

    Raises:
        EngineError: `ArtifactKind.busy`: another thread or process is downloading it.
        WeightsUnreadable: The file in the folder cannot be read.
        DownloadFailed, HashMismatch, DiskFull, OutputUnwritable, Cancelled: See `fetch`.
    """
    target = folder.target(file.name)
    with folder.held(file.id):
        if target.is_file():
            if sha256_of(target, listener.on_progress, listener.control) == file.sha256:
                return target
            logger.warning("%s", _quarantined(target, file, folder).message)
        fetch(file, folder, listener)
    return target


def fetch(file: RemoteFile, folder: ArtifactFolder, listener: Listener) -> None:
    """Download a file into a folder; the caller holds it.

    Whatever goes wrong, what was downloaded stays in the part, and the next call continues there.
    A file that has the name already is quarantined.

    Raises:
        DownloadFailed: No server delivered it.
        HashMismatch: What came is not the published file; it was quarantined.
        DiskFull, OutputUnwritable: The folder cannot take it.
        Cancelled: The listener's control was cancelled.
    """
    part, target = folder.part(file.name), folder.target(file.name)
    _fill(part, file, folder, listener)
    if target.exists():
        logger.warning("%s", _quarantined(target, file, folder).message)
    with folder.writing():
        atomic_file.replace(part, target)


def _fill(path: Path, file: RemoteFile, folder: ArtifactFolder, listener: Listener) -> None:
    """Return when `path` has the right content; each address continues after the one before."""
    failure: EngineError | None = None
    for url in file.urls:
        try:
            while True:
                with PartFile(path, folder.writing, listener.on_progress, listener.control) as part:
                    was_empty = part.bytes == 0
                    if Transfer(file, part, folder.need, listener).run(url):
                        return
                failure = _quarantined(path, file, folder)
                if was_empty:
                    break  # the server is wrong, not the part of an earlier try
        except DownloadFailed as err:
            failure = err
        logger.warning("%s from %s: %s", file.id, host(url), failure.message)
    assert failure is not None, "a remote file has an address"
    raise failure


def _quarantined(path: Path, file: RemoteFile, folder: ArtifactFolder) -> HashMismatch:
    return mismatch(folder.quarantine(path, file.name), file.id, file.sha256)


def mismatch(path: Path, file_id: str, sha256: str) -> HashMismatch:
    """A file has other content than the published one, whose SHA-256 is given."""
    return HashMismatch("published", name=path.name, path=path, file=file_id, sha256=sha256)
