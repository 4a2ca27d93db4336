"""Which model files are on this machine, where, and whether they are the published ones.

Nothing is ever deleted but by `remove`, and nothing outside our own folder is ever changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from engine.core import atomic_file
from engine.core.control import Control
from engine.core.errors import (
    DiskFull,
    EngineError,
    HashMismatch,
    OutputUnwritable,
    WeightsError,
    WeightsMissing,
)
from engine.core.paths import models_folder
from engine.core.units import bytes_text
from engine.downloads.hashing import Tell, sha256_of, silent
from engine.downloads.locks import Locks
from engine.downloads.os_errors import refusal, writing
from engine.model_files import catalogue
from engine.model_files.hash_cache import Ledger, Record, record_of
from engine.model_files.installed_files import Shelf, is_whole, standing
from engine.protocol.model_file_state import PublishedState

_RESERVE_BYTES = 64 * 10**6  # left free on the disk


class Store:
    """The folder of model files, and what other programs have of them."""

    def __init__(
        self, folder: Path | None = None, *, files: catalogue.Catalogue | None = None
    ) -> None:
        self.folder = (folder or models_folder()).absolute()
        self.shelf = Shelf(self.folder)
        self._files = files
        self._ledger = Ledger(self.folder)
        self._locks = Locks(self.folder / ".locks")

    @property
    def catalogue(self) -> catalogue.Catalogue:
        """The published files; read when first asked for."""
        if self._files is None:
            self._files = catalogue.catalogue()
        return self._files

    # --- asking

    def states(self) -> tuple[PublishedState, ...]:
        """Every published file in the catalogue's order, then the user's own."""
        return tuple(self._with_busy(state) for state in self._standing())

    def state(self, file_id: str) -> PublishedState:
        """One file by its id.

        Raises:
            UnknownWeights: There is none.
        """
        return self._with_busy(self.standing_of(file_id))

    def best_present(
        self, model_id: str
    ) -> tuple[PublishedState, PublishedState, PublishedState] | None:
        """Transformer, VAE and text embedding to take, or None when one is not here."""
        return catalogue.best_present(model_id, self._standing())

    def best_vae(self, model_id: str) -> PublishedState:
        """The VAE of a model that needs nothing else, one that is here where there is one.

        Raises:
            UnknownWeights: There is no such model.
        """
        return catalogue.best_vae(model_id, self._standing())

    def path_of(self, file_id: str) -> Path:
        """Where a file lies, without reading it; before it is loaded ask `ready`.

        Raises:
            UnknownWeights: There is no such file.
            WeightsMissing: It is not on this machine.
            HashMismatch: What is here of it is not the published file.
        """
        state = self.standing_of(file_id)
        if state.is_here and state.path is not None:
            return state.path
        if state.state == "damaged" and state.path is not None:
            raise _mismatch(state.path, state)
        raise WeightsMissing(
            f"The model file {state.filename} is not on this machine.",
            hint="Get it in the list of models, or with "
            f"`python -m engine models download {state.id}`.",
            file=state.id,
            filename=state.filename,
        )

    def ready(self, file_id: str, *, tell: Tell = silent, control: Control | None = None) -> Path:
        """Where a file lies, to be loaded now: it was read and is the published one.

        A file that was read before and has not been touched since is not read again.

        Raises:
            UnknownWeights, WeightsMissing, HashMismatch: As `path_of`.
            WeightsUnreadable: The disk fails.
            Cancelled: `control` said so.
        """
        control = control or Control()
        path = self.path_of(file_id)
        if self.standing_of(file_id).state == "here":
            return path
        try:
            with self.held(file_id, wait=control):
                if self.standing_of(file_id).state != "here":
                    self.check(file_id, tell=tell, control=control)
                return self.path_of(file_id)
        except OutputUnwritable:  # models on a disk that can only be read: nothing is remembered
            state = self.standing_of(file_id)
            if sha256_of(path, tell, control) != state.sha256:
                raise _mismatch(path, state) from None
            return path

    def free_bytes(self) -> int:
        """Free space on the disk of our folder, which need not exist yet; 0 when unknown."""
        for folder in (self.folder, *self.folder.parents):
            with contextlib.suppress(OSError):
                return shutil.disk_usage(folder).free
        return 0

    def target(self, filename: str) -> Path:
        """Where our own copy of a file lies, or would."""
        return self.shelf.target(filename)

    # --- changing

    @contextlib.contextmanager
    def held(self, file_id: str, *, wait: Control | None = None) -> Iterator[None]:
        """Keep other programs, and other threads of this one, away from a file.

        Raises:
            WeightsBusy: Somebody is at the file, and nobody wants to wait.
            DiskFull, OutputUnwritable: Our folder cannot be written.
            Cancelled: While waiting.
        """
        with contextlib.ExitStack() as stack:
            with self.writing():
                stack.enter_context(self._locks.held(file_id, wait=wait))
            yield

    def check(self, file_id: str, *, tell: Tell = silent, control: Control | None = None) -> None:
        """Read a file and compare it with what was published; the caller holds it.

        A wrong file of ours is put aside under another name; one of somebody else stays.

        Raises:
            WeightsMissing: There is nothing to check.
            HashMismatch: It is not the published file.
            WeightsUnreadable: The disk fails.
            Cancelled: `control` said so.
        """
        state = self.standing_of(file_id)
        path = state.path
        if path is None or not is_whole(path):
            path = self.path_of(file_id)  # says what is wrong
        digest = sha256_of(path, tell=tell, control=control)
        if digest == state.sha256:
            self.note(path, digest)
        elif self.shelf.owns(path):
            raise self.quarantined(path, state)
        else:
            self.note(path, digest)
            raise _mismatch(path, state)

    def note(
        self, path: Path, sha256: str, *, linked: bool = False, own: PublishedState | None = None
    ) -> None:
        """Remember what SHA-256 a file has.

        Raises:
            DiskFull, OutputUnwritable: Our folder cannot be written.
        """
        with self.writing():
            record = record_of(path, sha256)
            self._ledger.note(dataclasses.replace(record, linked=linked, own=own))

    def quarantined(self, path: Path, state: PublishedState) -> HashMismatch:
        """Put a wrong file of ours aside, and say so."""
        stamp = f"{state.filename}.damaged-{datetime.now():%Y%m%d-%H%M%S}"
        names = itertools.chain([stamp], (f"{stamp}-{number}" for number in itertools.count(2)))
        aside = next(p for p in map(self.shelf.target, names) if not p.exists())
        with self.writing():
            atomic_file.replace(path, aside)
            self._ledger.forget({path})
        return _mismatch(aside, state)

    def remove(self, file_id: str) -> None:
        """Delete our own copy of a file with its parts, and forget where the user said it lies.

        Raises:
            UnknownWeights, WeightsMissing: There is nothing of it.
            WeightsBusy: Somebody is at it.
            WeightsError: It lies in another program's folder.
        """
        with self.held(file_id):
            state = self.standing_of(file_id)
            mine = self.shelf.leftovers(state)
            told = {record.path for record in self._ledger.records() if _is_told(record, state)}
            if not mine and not told:
                raise self._not_ours(state)
            with self.writing():
                for path in mine:
                    path.unlink(missing_ok=True)
                self._ledger.forget(mine | told)

    def need(self, bytes_: int) -> None:
        """Refuse what the disk cannot take.

        Raises:
            DiskFull: Less than that, and a little more, is free.
        """
        free = self.free_bytes()
        if free < bytes_ + _RESERVE_BYTES:
            raise DiskFull(
                f"The disk of {self.folder} has {bytes_text(free)} free, "
                f"but {bytes_text(bytes_)} are to come.",
                hint="Free some space, or put the models elsewhere with UPREEL_MODELS.",
                path=self.folder,
                free=free,
                needed=bytes_,
            )

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Where our folder is written to: what the system refuses becomes an error for people."""
        with writing(self.folder, _unwritable):
            yield

    def _standing(self) -> list[PublishedState]:
        """As `states`, but whoever holds a file does not hide how it stands."""
        published = [file.state() for file in self.catalogue]
        return standing(self.shelf, published, self._ledger.records())

    def standing_of(self, file_id: str) -> PublishedState:
        """As `state`, but never "busy": for whoever holds the file.

        Raises:
            UnknownWeights: There is none.
        """
        asked = [file.state() for file in self.catalogue if file.id == file_id]
        for state in standing(self.shelf, asked, self._ledger.records()):
            if state.id == file_id:
                return state
        raise catalogue.unknown(file_id)

    def _with_busy(self, state: PublishedState) -> PublishedState:
        is_busy = self._locks.is_held(state.id)
        return dataclasses.replace(state, state="busy") if is_busy else state

    def _not_ours(self, state: PublishedState) -> EngineError:
        if state.path is None:
            return WeightsMissing(
                f"There is nothing of {state.filename} to be removed.", file=state.id
            )
        return WeightsError(
            f"{state.filename} lies in {state.path.parent}, which is not ours.",
            hint="Delete it there if nobody needs it any more.",
            file=state.id,
            path=state.path,
        )


def _unwritable(folder: Path, error: OSError) -> EngineError:
    otherwise = OutputUnwritable(
        f"The folder of the models, {folder}, cannot be written: {error.strerror or error}.",
        hint="Another program may hold the file; or name another folder with UPREEL_MODELS.",
        path=folder,
    )
    return refusal(folder, error, otherwise)


def _mismatch(path: Path, state: PublishedState) -> HashMismatch:
    return HashMismatch(
        f"{path.name} is not the file that was published.",
        hint="It is kept but never used. Download it again.",
        path=str(path),
        file=state.id,
        sha256=state.sha256,
    )


def _is_told(record: Record, state: PublishedState) -> bool:
    """True where the user said what a file is, or where it lies."""
    if record.own is not None:
        return record.own.id == state.id
    return record.linked and record.sha256 == state.sha256
