"""Files of the user's become model files: copied to ours, or remembered where they lie."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

from engine.core import atomic_file
from engine.core.errors import WeightsMissing
from engine.downloads.hashing import pieces, sha256_of
from engine.downloads.part_file import PartFile
from engine.downloads.transfer import Listener
from engine.model_files.catalogue import PublishedFile
from engine.model_files.store import Store
from engine.models.user_files import describe
from engine.protocol.model_file_state import ImportMode, PublishedState
from engine.protocol.plan import Notice

_LONGEST_NAME = 120


def take(
    path: Path, mode: ImportMode, store: Store, listener: Listener
) -> tuple[PublishedState, Notice | None]:
    """Take a file: a published one by its SHA-256, else as the user's own by what is in it.

    Returns:
        How it stands now, and a warning when it is none of the published files.

    Raises:
        WeightsMissing, WeightsUnreadable: It is not there, or may not be read.
        WeightsError: It is no file that a model could use.
        WeightsBusy: Another process uses that published file.
        DiskFull, OutputUnwritable: Our folder cannot take it.
        Cancelled: The listener's control said so.
    """
    path = path.absolute()
    if not path.is_file():
        raise WeightsMissing("no-such-file", path=path)
    described = describe(path)
    if mode == "link" or store.owns(path):
        digest = sha256_of(path, listener.on_progress, listener.control)
        return _noted(path, digest, described, store)
    with _copied(path, store, listener) as (part, digest):
        published = _published(digest, store)
        name = published.filename if published else _own_name(path, digest)
        with store.held(published.id if published else name):
            target = store.target(name)
            if target.exists() and sha256_of(target, control=listener.control) != digest:
                store.quarantine(target, name)
            with store.writing():
                atomic_file.replace(part, target)
            return _noted(target, digest, described, store)


def _noted(
    path: Path, digest: str, described: PublishedState, store: Store
) -> tuple[PublishedState, Notice | None]:
    """Remember what lies where."""
    published = _published(digest, store)
    linked = not store.owns(path)
    if published is not None:
        store.note(path, digest, linked=linked)
        return store.standing_of(published.id), None
    own = dataclasses.replace(described, id=f"own-{digest[:12]}", sha256=digest)
    store.note(path, digest, linked=linked, own=own)
    notice = Notice(
        code="own-weights",
        severity="warning",
        params={"title": own.title, "file": own.id},
    )
    return store.standing_of(own.id), notice


def _published(digest: str, store: Store) -> PublishedFile | None:
    return next((file for file in store.catalogue if file.sha256 == digest), None)


@contextlib.contextmanager
def _copied(path: Path, store: Store, listener: Listener) -> Iterator[tuple[Path, str]]:
    """A copy in our folder under a temporary name, and its SHA-256; deleted afterwards."""
    store.need(path.stat().st_size)
    part = store.target(f".import-{_plain(path.name)}.part")
    with store.held(part.name):
        try:
            with PartFile(part, store.writing) as copy:
                copy.clear()
                for piece in pieces(path, listener.on_progress, listener.control):
                    copy.write(piece)
            yield part, copy.sha256
        finally:
            part.unlink(missing_ok=True)


def _own_name(path: Path, digest: str) -> str:
    """A name that no published file has."""
    return f"own-{digest[:8]}-{_plain(path.name)}"


def _plain(name: str) -> str:
    """A name that every system takes."""
    return re.sub(r'[<>:"/\\|?*\x00-\x1f]', "_", name).rstrip(". ")[-_LONGEST_NAME:]
