"""Answers commands about model files: a list at once, everything else as a task."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from engine.core import atomic_file
from engine.core.control import Control
from engine.core.errors import HashMismatch, UnknownWeights, WeightsMissing, WeightsUnreadable
from engine.core.messages import Param
from engine.core.paths import NOT_IN_NAMES
from engine.files.catalogue import PublishedFile
from engine.files.hashing import FileIdentity, PartFile, hashed, pieces, sha256_of
from engine.files.model_files import Store, download
from engine.files.transfer import Listener
from engine.jobs.task_runner import Outcome, RunningTask, Task
from engine.models import registry
from engine.models.user_files import describe
from engine.protocol import commands as c
from engine.protocol.events import ModelFilesListed
from engine.protocol.model_file_state import ImportMode, PublishedState, facts_of
from engine.protocol.plan import Notice, name_of_copy
from engine.protocol.tasks import Phase, TaskKind


class ModelFileService:
    """Turns commands into tasks, which run one after the other; only removal does not wait."""

    kind = TaskKind.MODEL_FILE
    commands = c.ModelFileCommand

    def __init__(self, store: Store | None = None) -> None:
        self._store = store or Store()

    def answer(self, command: c.ModelFileCommand) -> Task | tuple[ModelFilesListed]:
        """The list, or a task."""
        match command:
            case c.DownloadModelFile(file=file):
                return self._task(file, "download", partial(self._download, file))
            case c.VerifyModelFile(file=file):
                return self._task(file, "verify", partial(self._verify, file))
            case c.ImportModelFile(path=path):
                return self._task(str(path), "import", partial(self._import, command))
            case c.ConvertModelFile(file=file):
                return self._task(file, "convert", partial(self._convert, command))
            case c.RemoveModelFile(file=file):
                task = self._task(file, "remove", lambda _: self._remove(file))
                return dataclasses.replace(task, turn="at-once")
        return (self._listed(),)

    def _task(self, subject: str, phase: Phase, do: Callable[[RunningTask], Outcome]) -> Task:
        return Task(kind=self.kind, subject=subject, phase=phase, do=do, state=self._listed)

    def _listed(self) -> ModelFilesListed:
        """State of every file, from the folders alone; reads no file."""
        return ModelFilesListed(files=self._store.states(), free_mb=self._store.free_bytes() / 1e6)

    def _download(self, file: str, work: RunningTask) -> Outcome:
        download(self._store.catalogue.file(file), self._store, Listener.of(work))
        return Outcome(result=self._store.standing_of(file))

    def _verify(self, file: str, work: RunningTask) -> Outcome:
        """Hash a file again, even if its SHA-256 is known; `file` may also be a path to any file.

        Raises:
            UnknownWeights: No model file has this id, and no file this path.
            HashMismatch: Its content is not that of the published file, or of any.
            WeightsMissing, WeightsUnreadable, WeightsBusy, Cancelled: Raised by the store.
        """
        if Path(file).is_file():
            return Outcome(result=self._verified_path(Path(file), work))
        self._store.standing_of(file)
        with self._store.held(file):
            self._store.check(file, on_progress=work.progress, control=work.control)
        return Outcome(result=self._store.standing_of(file))

    def _verified_path(self, path: Path, work: RunningTask) -> PublishedState:
        digest = sha256_of(path, work.progress, work.control)
        for known in self._store.states():
            if known.sha256 == digest:
                return dataclasses.replace(known, state="here", path=path)
        raise HashMismatch("none-published", name=path.name, path=path, sha256=digest)

    def _import(self, command: c.ImportModelFile, work: RunningTask) -> Outcome:
        result, notice = take(command.path, command.mode, self._store, Listener.of(work))
        return Outcome(result=result, notice=notice)

    def _convert(self, command: c.ConvertModelFile, work: RunningTask) -> Outcome:
        """Convert a published file, which is removed afterwards where that is wanted.

        Raises:
            UnknownWeights: It has no such format.
            WeightsError, DiskFull, OutputUnwritable, Cancelled: See `ModelFamily.convert`.
        """
        state = self._store.standing_of(command.file)
        formats = [one.format for one in state.converts_to]
        if not formats:
            raise UnknownWeights("no-conversion", file=state.id)
        kind = command.format or formats[0]
        if kind not in formats:
            known = ", ".join(formats)
            raise UnknownWeights("conversion", file=state.id, format=kind, known=known)
        family = next(one for one in registry.families() if set(state.models) <= set(one.models))
        made = family.convert(state.id, kind, self._store, Listener.of(work))
        result, _ = take(made, "link", self._store, Listener.of(work))
        if command.removes:
            self._store.remove(state.id)
        return Outcome(result=result)

    def _remove(self, file: str) -> Outcome:
        before = self._store.standing_of(file)
        self._store.remove(file)
        try:
            return Outcome(result=self._store.standing_of(file))
        except UnknownWeights:  # the user's own file: nothing is known of it any more
            gone = dataclasses.replace(before, state="missing", path=None, done_bytes=0)
            return Outcome(result=gone)


# --- import


_LONGEST_NAME = 120


def take(
    path: Path, mode: ImportMode, store: Store, listener: Listener
) -> tuple[PublishedState, Notice | None]:
    """Import a file: a published one by its SHA-256, else the user's own, by its tensors.

    Returns:
        Its state now, and a warning where it is none of the published files.

    Raises:
        WeightsMissing, WeightsUnreadable: It does not exist, or may not be read.
        WeightsError: No model can use it.
        HashMismatch: It is a wheel, but not the published one of a library.
        WeightsBusy: Another process uses that published file.
        DiskFull, OutputUnwritable: Our folder cannot take it.
        Cancelled: The listener's control was cancelled.
    """
    path = path.absolute()
    if path.is_dir():
        raise WeightsUnreadable("folder", name=path.name, path=path)
    if not path.is_file():
        raise WeightsMissing("no-such-file", path=path)
    if path.suffix.lower() == ".whl":
        return _take_library(path, store, listener), None
    described = describe(path)
    if mode == "link" or store.owns(path):
        with hashed(path, listener.on_progress, listener.control) as (file, digest):
            identity = FileIdentity.of(file)
        return _noted(path, (digest, identity), described, store)
    with _copied(path, store, listener) as (part, digest):
        published = _published(digest, store)
        name = published.filename if published else name_of_copy(_plain(path.name), digest)
        with store.held(published.id if published else name):
            target = _placed((part, digest), name, store, listener.control)
            return _noted(target, (digest, FileIdentity.of(target)), described, store)


def _take_library(path: Path, store: Store, listener: Listener) -> PublishedState:
    """Copy the published wheel of a library, under any name; no other, as its code is run.

    Raises:
        HashMismatch: It is another file; one of another size is not read.
    """
    libraries = [file for file in store.catalogue if file.kind == "library"]
    size = path.stat().st_size
    library = next((file for file in libraries if file.bytes == size), None)
    if library is None:
        raise _no_library(path, libraries)
    with _copied(path, store, listener) as (part, digest):
        if digest != library.sha256:
            raise _no_library(path, [library])
        with store.held(library.id):
            target = _placed((part, digest), library.filename, store, listener.control)
            store.note(target, digest, FileIdentity.of(target))
    return store.standing_of(library.id)


def _no_library(path: Path, libraries: Sequence[PublishedFile]) -> HashMismatch:
    """Reason, by its name, why a wheel is refused: another package or version, or damaged."""
    names = tuple(file.filename for file in libraries)
    wanted = next((name for name in names if _project(name) == _project(path.name)), "")
    if not wanted:
        return HashMismatch("no-library", name=path.name, wheels=names)
    version, right = (f"{name}--".split("-")[1] for name in (path.name, wanted))
    case = "library-damaged" if version == right else "library-version"
    return HashMismatch(case, name=path.name, version=version, wanted=wanted)


def _project(wheel: str) -> str:
    return wheel.partition("-")[0].lower()


def _placed(copy: tuple[Path, str], name: str, store: Store, control: Control) -> Path:
    """Give a copy with its SHA-256 a name in our folder; another file there is set aside."""
    (part, digest), target = copy, store.target(name)
    if target.exists() and sha256_of(target, control=control) != digest:
        store.quarantine(target, name)
    with store.writing():
        atomic_file.replace(part, target)
    return target


def _noted(
    path: Path, found: tuple[str, FileIdentity], described: PublishedState, store: Store
) -> tuple[PublishedState, Notice | None]:
    """Record an imported file in the store; returns its state, and a notice if it is unknown."""
    digest, identity = found
    published = _published(digest, store)
    linked = not store.owns(path)
    if published is not None:
        store.note(path, digest, identity, linked=linked)
        return store.standing_of(published.id), None
    own = dataclasses.replace(described, id=f"own-{digest[:12]}", sha256=digest)
    store.note(path, digest, identity, linked=linked, own=own)
    return store.standing_of(own.id), _notice_of(own)


def _notice_of(own: PublishedState) -> Notice:
    """Warning that a file is not a published one, with its kind."""
    params: dict[str, Param] = {"title": own.title, "file": own.id}
    if own.network is None:
        return Notice(code="own-weights", severity="warning", params=params)
    params |= {"architecture": own.network.architecture, "facts": facts_of(own)}
    return Notice(code="own-weights", case="community", severity="warning", params=params)


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


def _plain(name: str) -> str:
    """A file name that every operating system accepts."""
    return NOT_IN_NAMES.sub("_", name).rstrip(". ")[-_LONGEST_NAME:]
