"""SHA-256 of model files that were read before; a file that changed since counts as never read."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import filelock

from engine.core import atomic_file
from engine.core.serialization import from_plain, to_plain
from engine.protocol.model_file_state import PublishedState

logger = logging.getLogger(__name__)

_FILE = "files.json"
_LOCK_WAIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HashRecord:
    """One file as it was when its SHA-256 was computed."""

    path: Path
    bytes: int
    modified_ns: int
    sha256: str
    checked_at: str  # "2026-11-20T20:15:00+00:00"
    linked: bool = False  # the user named its path; we only read it
    own: PublishedState | None = None  # description of a file that the catalogue does not have

    def is_current(self) -> bool:
        """True while the file has the same size and modification time."""
        try:
            about = self.path.stat()
        except OSError:
            return False
        return (about.st_size, about.st_mtime_ns) == (self.bytes, self.modified_ns)


def record_of(path: Path, sha256: str) -> HashRecord:
    """A record of a file whose SHA-256 was computed just now.

    Raises:
        OSError: The file is gone.
    """
    about = path.stat()
    return HashRecord(
        path=path,
        bytes=about.st_size,
        modified_ns=about.st_mtime_ns,
        sha256=sha256,
        checked_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


class HashCache:
    """The records of one folder in a file that is replaced atomically; shared by processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def records(self) -> tuple[HashRecord, ...]:
        """All records; none where the file is damaged: model files are read once more then."""
        try:
            found = json.loads((self._folder / _FILE).read_text(encoding="utf-8"))
            return tuple(from_plain(HashRecord, record) for record in found)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, TypeError, KeyError) as err:
            logger.warning("%s cannot be read: %s", self._folder / _FILE, err)
            return ()

    def add(self, record: HashRecord) -> None:
        """Store a record; it replaces an older one of the same file.

        Raises:
            OSError: The folder cannot be written.
        """
        with self._changed() as records:
            old = next((known for known in records if known.path == record.path), None)
            if old is not None:
                records.remove(old)
                record = dataclasses.replace(
                    record, linked=record.linked or old.linked, own=record.own or old.own
                )
            records.append(record)

    def forget(self, paths: set[Path]) -> None:
        """Drop the records of files.

        Raises:
            OSError: The folder cannot be written.
        """
        with self._changed() as records:
            records[:] = [record for record in records if record.path not in paths]

    @contextlib.contextmanager
    def _changed(self) -> Iterator[list[HashRecord]]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(self._folder / f"{_FILE}.lock", timeout=_LOCK_WAIT_S):
            records = list(self.records())
            yield records
            plain = [to_plain(record) for record in records]
            atomic_file.write_json(self._folder / _FILE, plain, indent=1)
