"""Answers commands about model files: a list at once, everything else as a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.core.errors import HashMismatch, UnknownWeights
from engine.downloads.hashing import sha256_of
from engine.downloads.transfer import Listener
from engine.jobs.model_file_import import take
from engine.model_files.store import Store, download
from engine.protocol import commands as c
from engine.protocol.events import ModelFilesListed
from engine.protocol.model_file_state import PublishedState
from engine.protocol.tasks import Outcome, Phase, RunningTask, Task, TaskKind


class ModelFileService:
    """Makes tasks of commands: they wait for each other, only removal does not."""

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
            case c.RemoveModelFile(file=file):
                task = self._task(file, "remove", lambda _: self._remove(file))
                return dataclasses.replace(task, turn="at-once")
        return (self._listed(),)

    def _task(self, subject: str, phase: Phase, do: Callable[[RunningTask], Outcome]) -> Task:
        return Task(kind=self.kind, subject=subject, phase=phase, do=do, state=self._listed)

    def _listed(self) -> ModelFilesListed:
        """How every file stands; only looks, reads none."""
        return ModelFilesListed(files=self._store.states(), free_mb=self._store.free_bytes() / 1e6)

    def _download(self, file: str, work: RunningTask) -> Outcome:
        download(self._store.catalogue.file(file), self._store, _listener(work))
        return Outcome(result=self._store.standing_of(file))

    def _verify(self, file: str, work: RunningTask) -> Outcome:
        """Read a file again whatever is known of it; `file` may also be a path to any file.

        Raises:
            UnknownWeights: There is neither such a file nor such a path.
            HashMismatch: It is not the published one, or none of them.
            WeightsMissing, WeightsUnreadable, WeightsBusy, Cancelled: As the store reports.
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
        raise HashMismatch(
            f"{path.name} is none of the published files.",
            hint="`python -m engine models import` takes it as a file of your own.",
            path=str(path),
            sha256=digest,
        )

    def _import(self, command: c.ImportModelFile, work: RunningTask) -> Outcome:
        result, notice = take(command.path, command.mode, self._store, _listener(work))
        return Outcome(result=result, notice=notice)

    def _remove(self, file: str) -> Outcome:
        before = self._store.standing_of(file)
        self._store.remove(file)
        try:
            return Outcome(result=self._store.standing_of(file))
        except UnknownWeights:  # a file of the user's own is forgotten altogether
            gone = dataclasses.replace(before, state="missing", path=None, done_bytes=0)
            return Outcome(result=gone)


def _listener(work: RunningTask) -> Listener:
    return Listener(on_progress=work.progress, control=work.control)
