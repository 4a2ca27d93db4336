"""What can be done with model files, one thing at a time; nobody else needs to know the store."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from engine.core.errors import HashMismatch, UnknownWeights
from engine.downloads.hashing import sha256_of
from engine.downloads.transfer import Listener
from engine.jobs.model_file_import import take
from engine.model_files.download import download
from engine.model_files.store import Store
from engine.protocol.events import WeightsListed
from engine.protocol.model_file_state import ImportMode, PublishedState
from engine.protocol.plan import Notice

Answer = tuple[PublishedState, Notice | None]


class WeightsDesk:
    """Each of its verbs does one thing in the calling thread, and returns how the file stands."""

    def __init__(self, store: Store | None = None) -> None:
        self._store = store or Store()

    def listed(self) -> WeightsListed:
        """Where every file stands; only looks, reads none."""
        return WeightsListed(files=self._store.states(), free_mb=self._store.free_bytes() / 1e6)

    def get(self, file: str, listener: Listener) -> Answer:
        """Download a file; see `engine.model_files.download`."""
        download(self._store.catalogue.file(file), self._store, listener)
        return self._store.standing_of(file), None

    def verify(self, file: str, listener: Listener) -> Answer:
        """Read a file again whatever is known of it; `file` may also be a path to any file.

        Raises:
            UnknownWeights: There is neither such a file nor such a path.
            HashMismatch: It is not the published one, or none of them.
            WeightsMissing, WeightsUnreadable, WeightsBusy, Cancelled: As the store says.
        """
        if Path(file).is_file():
            return self._verify_path(Path(file), listener), None
        self._store.standing_of(file)
        with self._store.held(file):
            self._store.check(file, on_progress=listener.on_progress, control=listener.control)
        return self._store.standing_of(file), None

    def take(self, path: Path, mode: ImportMode, listener: Listener) -> Answer:
        """Import a file; see `engine.jobs.model_file_import`."""
        return take(path, mode, self._store, listener)

    def remove(self, file: str) -> Answer:
        """Delete what is ours of a file; see `Store.remove`."""
        before = self._store.standing_of(file)
        self._store.remove(file)
        try:
            return self._store.standing_of(file), None
        except UnknownWeights:  # a file of the user's own is forgotten altogether
            return dataclasses.replace(before, state="missing", path=None, done_bytes=0), None

    def _verify_path(self, path: Path, listener: Listener) -> PublishedState:
        digest = sha256_of(path, listener.on_progress, listener.control)
        for known in self._store.states():
            if known.sha256 == digest:
                return dataclasses.replace(known, state="here", path=path)
        raise HashMismatch(
            f"{path.name} is none of the published files.",
            hint="`python -m engine models import` takes it as a file of your own.",
            path=str(path),
            sha256=digest,
        )
