"""Answers commands about updates: one at a time, in a thread of its own, and only when asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

from engine.core.errors import EngineError
from engine.core.update_errors import UpdateBusy
from engine.jobs.progress_meter import Amount
from engine.jobs.task_runner import End, OneTask, Task
from engine.protocol import update_messages as m
from engine.protocol.events import EventSink
from engine.updates.installer import check_installable
from engine.updates.store import UpdateStore


class UpdateDesk:
    """Shows and stops at once; what takes time runs alone, and a second wish is refused meanwhile.

    Args:
        sink: Gets the answers.
        store: Of this machine; made when first asked for.
    """

    def __init__(self, sink: EventSink, store: UpdateStore | None = None) -> None:
        self._sink = sink
        self._own_store = store
        self._tasks: OneTask[_Task] = OneTask("update")
        self._was_checked = False

    def answer(self, command: m.UpdateCommand) -> None:
        """Take a command; returns at once."""
        match command:
            case m.ShowUpdate():
                self._say_state()
            case m.StopUpdate():
                self._tasks.stop()
            case m.CheckUpdate():
                self._begin("check", self._check)
            case m.DownloadUpdate():
                self._begin("download", self._download)
            case m.InstallUpdate():
                self._begin("install", self._install)

    def tidy(self) -> None:
        """Delete the setup that brought this version, and what else is of no use any more."""
        self._store.tidy()

    def close(self, timeout_s: float) -> None:
        """End what runs within that time; what was loaded stays for the next start."""
        self._tasks.close(timeout_s)

    @property
    def _store(self) -> UpdateStore:
        if self._own_store is None:
            self._own_store = UpdateStore()
        return self._own_store

    def _begin(self, phase: m.Phase, do: Callable[[_Task], None]) -> None:
        task = _Task(self._sink, phase)
        if self._tasks.running is None:
            self._tasks.begin(task, partial(self._do, do))
        else:
            busy = "Upreel is at work on the update already."
            task.end(UpdateBusy(busy, hint="Wait until that has finished, or stop it."))

    # --- in the thread

    def _do(self, do: Callable[[_Task], None], task: _Task) -> None:
        try:
            do(task)
        finally:
            self._say_state()  # before the last word: who hears that knows it

    def _check(self, task: _Task) -> None:
        self._store.check(task.control)
        self._was_checked = True

    def _download(self, task: _Task) -> None:
        self._store.download(task.listener)

    def _install(self, task: _Task) -> None:
        check_installable()
        self._store.ready(task.listener)

    def _say_state(self) -> None:
        state = dataclasses.replace(self._store.state(), was_checked=self._was_checked)
        self._sink.emit(m.UpdateKnown(state=state))


class _Task(Task):
    def __init__(self, sink: EventSink, phase: m.Phase) -> None:
        super().__init__(sink)
        self._phase: m.Phase = phase

    def __str__(self) -> str:
        return f"{self._phase} of the update"

    def progress(self, amount: Amount) -> m.UpdateEvent:
        return m.UpdateProgress(
            phase=self._phase,
            done_mb=amount.done_mb,
            total_mb=amount.total_mb,
            mb_per_second=amount.mb_per_second,
            seconds_left=amount.seconds_left,
        )

    def last_word(self, why: End) -> m.UpdateEvent:
        match why:
            case None:
                return m.UpdateDone(phase=self._phase)
            case EngineError():
                return m.UpdateFailed(phase=self._phase, error=why.info())
            case _:
                return m.UpdateStopped(phase=self._phase)
