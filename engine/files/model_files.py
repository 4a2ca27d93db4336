"""Model files on this machine: where they are, and whether they are the published ones.

Only `remove` deletes files, and files outside the program's own folder are never changed.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Collection
from importlib.machinery import PathFinder
from pathlib import Path

from engine.core.control import Control
from engine.core.errors import (
    HashMismatch,
    LibraryMissing,
    OutputUnwritable,
    WeightsBusy,
    WeightsError,
    WeightsMissing,
    WeightsUnreadable,
)
from engine.core.paths import models_folder
from engine.files import catalogue
from engine.files.artifacts import ArtifactFolder, ArtifactKind, fetch, is_complete, mismatch
from engine.files.catalogue import HashCache, HashRecord, PublishedFile, file_states, record_of
from engine.files.formats.file_map import expect
from engine.files.hashing import FileIdentity, OnProgress, hashed, ignore_progress, sha256_of
from engine.files.transfer import Listener, RemoteFile
from engine.protocol.model_file_state import PublishedState
from engine.protocol.plan import WeightsPlan

logger = logging.getLogger(__name__)

_HUB = "https://huggingface.co/"
_KIND = ArtifactKind(
    reserve_bytes=64 * 10**6,
    busy=lambda name: WeightsBusy(file=name),
    disk_full="models",
    unwritable="models",
)


class Store(ArtifactFolder):
    """The folder of model files, and model files in folders of other programs.

    An unknown id raises UnknownWeights.
    """

    def __init__(
        self, folder: Path | None = None, *, files: catalogue.ModelCatalogue | None = None
    ) -> None:
        super().__init__(folder or models_folder(), _KIND)
        self._files = files
        self._hashes = HashCache(self.folder)

    @property
    def catalogue(self) -> catalogue.ModelCatalogue:
        """The published files; read at the first access."""
        if self._files is None:
            self._files = catalogue.catalogue()
        return self._files

    # --- queries

    def states(self) -> tuple[PublishedState, ...]:
        """Every published file in the catalogue's order, then the user's own.

        Left out, unless they are here, are spare files and a library that is installed in this
        Python.
        """
        return tuple(self._with_busy(state) for state in self._all())

    def state(self, file_id: str) -> PublishedState:
        """One file by its id."""
        return self._with_busy(self.standing_of(file_id))

    def standing_of(self, file_id: str) -> PublishedState:
        """Returns `state`, but never "busy": for the thread that holds the file."""
        found = self.standings_of([file_id])
        if file_id not in found:
            raise catalogue.unknown(file_id)
        return found[file_id]

    def standings_of(self, file_ids: Collection[str]) -> dict[str, PublishedState]:
        """Standings of several files by id, and of the user's own, in one look at the folders."""
        asked = [file.as_state() for file in self.catalogue if file.id in file_ids]
        found = file_states(self, asked, self._hashes.records())
        return {state.id: state for state in reversed(found)}  # the first of an id counts

    def best_present(
        self, model_id: str
    ) -> tuple[PublishedState, PublishedState, PublishedState] | None:
        """Transformer, VAE and text embedding to use, or None when one is not here."""
        return catalogue.best_present(model_id, self._all(model_id))

    def has_all_of(self, model_id: str) -> bool:
        """Whether there is a file of each kind that a model was published with."""
        files = [file for file in self.catalogue if model_id in file.models]
        states = self.standings_of([file.id for file in files]).values()
        here = {state.kind for state in states if state.is_here and model_id in state.models}
        return bool(files) and here >= {file.kind for file in files}

    def best_vae(self, model_id: str) -> PublishedState:
        """The VAE of a model that needs nothing else; an installed one if there is one."""
        return catalogue.best_vae(model_id, self._all(model_id))

    def path_of(self, file_id: str) -> Path:
        """Path of a file, without reading it; before it is loaded use `ready`.

        Raises:
            WeightsMissing: It is not on this machine.
            HashMismatch: What is here of it is not the published file.
        """
        state = self.standing_of(file_id)
        if state.is_here and state.path is not None:
            return state.path
        if state.state == "damaged" and state.path is not None:
            raise _mismatch(state.path, state)
        raise WeightsMissing("not-here", name=state.filename, file=state.id)

    def ready(
        self,
        file_id: str,
        *,
        on_progress: OnProgress = ignore_progress,
        control: Control | None = None,
    ) -> Path:
        """Path of a file whose SHA-256 is right, to be loaded now.

        A file that was read before and has not changed since is not read again. This thread opens
        only the very file that was hashed from now on.

        Raises:
            WeightsMissing, HashMismatch: See `path_of`.
            WeightsUnreadable: The disk fails.
            Cancelled: The control was cancelled.
        """
        control = control or Control()
        path = self.path_of(file_id)
        try:
            if self.standing_of(file_id).state != "here":
                with self.held(file_id, wait=control):
                    if self.standing_of(file_id).state != "here":
                        self.check(file_id, on_progress=on_progress, control=control)
                    path = self.path_of(file_id)
        except OutputUnwritable:  # models on a read-only disk: the hash cannot be cached
            state = self.standing_of(file_id)
            with hashed(path, on_progress, control) as (file, digest):
                if digest != state.sha256:
                    raise _mismatch(path, state) from None
                expect(path, FileIdentity.of(file))
        else:
            for record in self._hashes.records():
                if record.path == path:
                    expect(path, record.identity)
        return path

    def sha256_of(self, path: Path, control: Control | None = None) -> str:
        """SHA-256 of any file; one that was read before and has not changed is not read again."""
        known = (one for one in self._hashes.records() if one.path == path and one.is_current())
        record = next(known, None)
        return record.sha256 if record is not None else sha256_of(path, control=control)

    # --- changes

    def check(
        self,
        file_id: str,
        *,
        on_progress: OnProgress = ignore_progress,
        control: Control | None = None,
    ) -> None:
        """Read a file and compare it with the published one; the caller holds it.

        A wrong file of ours is quarantined; a file of another program stays.

        Raises:
            WeightsMissing: There is nothing to check.
            HashMismatch: It is not the published file.
            WeightsUnreadable: The disk fails.
            Cancelled: The control was cancelled.
        """
        state = self.standing_of(file_id)
        path = state.path
        if path is None or not is_complete(path):
            path = self.path_of(file_id)  # raises
        with hashed(path, on_progress, control) as (file, digest):
            identity = FileIdentity.of(file)
        if digest == state.sha256:
            self.note(path, digest, identity)
        elif self.owns(path):
            raise _mismatch(self.quarantine(path, state.filename), state)
        else:
            self.note(path, digest, identity)
            raise _mismatch(path, state)

    def note(
        self,
        path: Path,
        sha256: str,
        identity: FileIdentity,
        *,
        linked: bool = False,
        own: PublishedState | None = None,
    ) -> None:
        """Cache the SHA-256 of a file."""
        with self.writing():
            record = record_of(path, sha256, identity)
            self._hashes.add(dataclasses.replace(record, linked=linked, own=own))

    def quarantine(self, path: Path, name: str) -> Path:
        """Does what any download folder does, and drops the cached hash."""
        aside = super().quarantine(path, name)
        with self.writing():
            self._hashes.forget({path})
        return aside

    def remove(self, file_id: str) -> None:
        """Delete a file of ours with its parts, and forget a link to a file elsewhere.

        Raises:
            WeightsMissing: There is nothing of it.
            WeightsBusy: Another thread or process holds it.
            WeightsError: It is in another program's folder.
        """
        with self.held(file_id):
            state = self.standing_of(file_id)
            if state.is_own:
                mine = {state.path} if state.path is not None and self.owns(state.path) else set()
            else:
                mine = self.files_of(state.filename)
            linked = {record.path for record in self._hashes.records() if _is_link(record, state)}
            if not mine and not linked:
                about = {"name": state.filename, "file": state.id}
                if state.path is None:
                    raise WeightsMissing("nothing-to-remove", **about)
                raise WeightsError("not-ours", folder=state.path.parent, **about)
            with self.writing():
                for path in mine:
                    path.unlink(missing_ok=True)
                self._hashes.forget(mine | linked)

    def _all(self, model_id: str = "") -> list[PublishedState]:
        """Returns `states`, but never "busy"; only published files of a model where it is named."""
        published = [file.as_state() for file in self.catalogue if model_id in ("", *file.models)]
        found = file_states(self, published, self._hashes.records())
        return [s for s in found if s.is_here or not (s.spare or _has_python(s))]

    def _with_busy(self, state: PublishedState) -> PublishedState:
        return dataclasses.replace(state, state="busy") if self.is_held(state.id) else state


def _mismatch(path: Path, state: PublishedState) -> HashMismatch:
    return mismatch(path, state.id, state.sha256)


def _has_python(state: PublishedState) -> bool:
    """Whether a library is installed in this Python."""
    return state.kind == "library" and PathFinder.find_spec(state.id) is not None


def _is_link(record: HashRecord, state: PublishedState) -> bool:
    """True where the user named the path of a file."""
    if record.own is not None:
        return record.own.id == state.id
    return record.linked and record.sha256 == state.sha256


def download(file: PublishedFile, store: Store, listener: Listener | None = None) -> None:
    """Make sure that a published file is on this machine and right.

    A copy that was not read yet is read first, also one in another program's folder: the network is
    used only without a right one. Whatever goes wrong, what was downloaded stays in "<name>.part",
    and the next call continues there. A file that the user has to bring raises LibraryMissing.
    """
    listener = listener or Listener()
    with store.held(file.id):
        if not _is_right(file, store, listener):
            if not file.host:
                raise LibraryMissing("not-downloaded", name=file.filename, title=file.title)
            fetch(remote_file(file, store), store, listener)
            target = store.target(file.filename)
            store.note(target, file.sha256, FileIdentity.of(target))


def remote_file(file: PublishedFile, store: Store) -> RemoteFile:
    """A published file with its addresses: the user's mirror, then where it was published.

    `UPREEL_MIRROR` replaces every host; `HF_ENDPOINT`, known from other tools, Hugging Face.
    """
    published = store.catalogue.addresses(file)
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    if endpoint:
        published = tuple(url.replace(_HUB, f"{endpoint}/", 1) for url in published)
    mirror = os.environ.get("UPREEL_MIRROR", "").rstrip("/")
    path = f"{file.repository}/resolve/{file.revision}/{file.place or file.filename}"
    return RemoteFile(
        id=file.id,
        name=file.filename,
        urls=(f"{mirror}/{path}", *published) if mirror else published,
        sha256=file.sha256,
        bytes=file.bytes,
    )


def _is_right(file: PublishedFile, store: Store, listener: Listener) -> bool:
    """Whether a right copy is here already; copies that were not read yet are read."""
    state = store.standing_of(file.id).state
    if state != "unverified":
        return state == "here"
    try:
        store.check(file.id, on_progress=listener.on_progress, control=listener.control)
    except HashMismatch as err:
        logger.warning("%s", err.message)
        return _is_right(file, store, listener)  # there may be another copy
    return True


def named(path: Path) -> WeightsPlan:
    """A file of the user's own.

    Raises:
        WeightsMissing: It does not exist.
        WeightsUnreadable: It is a folder.
    """
    if path.is_dir():
        raise WeightsUnreadable("folder", name=path.name, path=path)
    if not path.is_file():
        raise WeightsMissing("chosen", file=str(path))
    return _at(path.absolute(), "")


def planned(state: PublishedState, store: Store) -> WeightsPlan:
    """A file of the list, where it lies or would lie, with the size it has or is said to have."""
    if not state.is_here or state.path is None:
        return WeightsPlan(
            path=store.target(state.filename),
            published=state.id,
            bytes=state.bytes or state.about_bytes,
        )
    return _at(state.path, "" if state.is_own else state.id)


def is_changed(weights: WeightsPlan) -> bool:
    """Whether a file is another one than when a job was planned, or gone."""
    try:
        about = weights.path.stat()
    except OSError:
        return True
    return (about.st_size, about.st_mtime_ns) != (weights.bytes, weights.modified_ns)


def _at(path: Path, published: str) -> WeightsPlan:
    about = path.stat()
    return WeightsPlan(
        path=path, published=published, bytes=about.st_size, modified_ns=about.st_mtime_ns
    )
