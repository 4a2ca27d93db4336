"""Downloads that continue where they ended, and that are complete when their SHA-256 is right."""

from __future__ import annotations

import logging
from pathlib import Path

from engine.core import atomic_file
from engine.core.errors import DownloadFailed, EngineError, HashMismatch
from engine.downloads.folder import DownloadFolder
from engine.downloads.hashing import sha256_of
from engine.downloads.part_file import PartFile
from engine.downloads.transfer import Listener, RemoteFile, Transfer, host

logger = logging.getLogger(__name__)


def ensure(file: RemoteFile, folder: DownloadFolder, listener: Listener) -> Path:
    """Path of a complete file with the right content: the one in the folder, else a download.

    Raises:
        EngineError: `DownloadFolder.busy`: another thread or process is downloading it.
        WeightsUnreadable: The file in the folder cannot be read.
        DownloadFailed, HashMismatch, DiskFull, OutputUnwritable, Cancelled: As `fetch`.
    """
    target = folder.target(file.name)
    with folder.held(file.id):
        if target.is_file():
            if sha256_of(target, listener.on_progress, listener.control) == file.sha256:
                return target
            logger.warning("%s", _quarantined(target, file, folder).message)
        fetch(file, folder, listener)
    return target


def fetch(file: RemoteFile, folder: DownloadFolder, listener: Listener) -> None:
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


def _fill(path: Path, file: RemoteFile, folder: DownloadFolder, listener: Listener) -> None:
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


def _quarantined(path: Path, file: RemoteFile, folder: DownloadFolder) -> HashMismatch:
    return mismatch(folder.quarantine(path, file.name), file.id, file.sha256)


def mismatch(path: Path, file_id: str, sha256: str) -> HashMismatch:
    """A file has other content than the published one, whose SHA-256 is given."""
    return HashMismatch("published", name=path.name, path=path, file=file_id, sha256=sha256)
