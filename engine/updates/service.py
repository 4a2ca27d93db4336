"""Answers commands about updates: what is known at once, everything else as a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from engine.files.transfer import Listener
from engine.protocol import commands as c
from engine.protocol.events import UpdateKnown
from engine.protocol.tasks import Phase, RunningTask, Task, TaskKind
from engine.updates.installer import check_installable
from engine.updates.store import UpdateStore, busy


class UpdateService:
    """Makes tasks of commands; a second one is refused while the first runs.

    Args:
        store: Store of this computer; made on first use.
    """

    kind = TaskKind.UPDATE
    commands = c.UpdateCommand

    def __init__(self, store: UpdateStore | None = None) -> None:
        self._own_store = store
        self._was_checked = False

    def answer(self, command: c.UpdateCommand) -> Task | tuple[UpdateKnown]:
        """The known state, or a task."""
        match command:
            case c.CheckUpdate():
                return self._task("check", self._check)
            case c.DownloadUpdate():
                return self._task("download", self._download)
            case c.InstallUpdate():
                return self._task("install", self._install)
        return (self._known(),)

    def tidy(self) -> None:
        """Delete the setup that brought this version, and what else is of no use any more."""
        self._store.tidy()

    @property
    def _store(self) -> UpdateStore:
        if self._own_store is None:
            self._own_store = UpdateStore()
        return self._own_store

    def _task(self, phase: Phase, do: Callable[[RunningTask], None]) -> Task:
        return Task(kind=self.kind, phase=phase, do=do, busy=busy, state=self._known)

    def _check(self, work: RunningTask) -> None:
        self._store.check(work.control)
        self._was_checked = True

    def _download(self, work: RunningTask) -> None:
        self._store.download(_listener(work))

    def _install(self, work: RunningTask) -> None:
        check_installable()
        with self._store.ready(_listener(work)):
            pass

    def _known(self) -> UpdateKnown:
        state = dataclasses.replace(self._store.state(), was_checked=self._was_checked)
        return UpdateKnown(state=state)


def _listener(work: RunningTask) -> Listener:
    return Listener(on_progress=work.progress, control=work.control)
