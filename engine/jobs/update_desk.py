"""Answers commands about updates: one at a time, in a thread of its own, and only when asked."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable

from engine import events as e
from engine.control import Control
from engine.errors import Cancelled, EngineError
from engine.jobs.meter import Amount, Meter
from engine.jobs.mistakes import internal
from engine.jobs.update_start import check_installable
from engine.updates import messages as m
from engine.updates.errors import UpdateBusy
from engine.weights.transfer import Listener
from engine.weights.update_store import UpdateStore

logger = logging.getLogger(__name__)


class UpdateDesk:
    """Shows and stops at once; what takes time runs alone, and a second wish is refused meanwhile.

    Args:
        sink: Gets the answers.
        store: Of this machine; made when first asked for.
    """

    def __init__(self, sink: e.EventSink, store: UpdateStore | None = None) -> None:
        self._sink = sink
        self._own_store = store
        self._task: _Task | None = None
        self._was_checked = False

    def answer(self, command: m.UpdateCommand) -> None:
        """Take a command; returns at once."""
        match command:
            case m.ShowUpdate():
                self._say_state()
            case m.StopUpdate():
                if self._task is not None:
                    self._task.control.cancel()
            case m.CheckUpdate():
                self._begin(_Task(self._sink, "check"), self._check)
            case m.DownloadUpdate():
                self._begin(_Task(self._sink, "download"), self._download)
            case m.InstallUpdate():
                self._begin(_Task(self._sink, "install"), self._install)

    def tidy(self) -> None:
        """Delete the setup that brought this version, and what else is of no use any more."""
        self._store.tidy()

    def close(self, timeout_s: float) -> None:
        """End what runs within that time; what was loaded stays for the next start."""
        if self._task is not None and self._task.thread is not None:
            self._task.control.cancel()
            self._task.thread.join(timeout_s)

    @property
    def _store(self) -> UpdateStore:
        if self._own_store is None:
            self._own_store = UpdateStore()
        return self._own_store

    def _begin(self, task: _Task, do: Callable[[_Task], None]) -> None:
        running = self._task
        if running is not None and running.thread is not None and running.thread.is_alive():
            task.end(
                UpdateBusy(
                    "Upreel is at work on the update already.",
                    hint="Wait until that has finished, or stop it.",
                )
            )
            return
        self._task = task
        task.thread = threading.Thread(
            target=self._work, args=(task, do), name="update", daemon=True
        )
        task.thread.start()

    # --- in the thread

    def _work(self, task: _Task, do: Callable[[_Task], None]) -> None:
        ended: EngineError | Cancelled | None = None
        try:
            do(task)
        except (EngineError, Cancelled) as err:
            ended = err
        except Exception as err:  # the thread is its end: not told, the page would wait for ever
            logger.exception("%s of the update", task.phase)
            ended = internal(err)
        self._say_state()
        task.end(ended)

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


class _Task:
    """One thing that is being done: how far it is becomes events."""

    def __init__(self, sink: e.EventSink, phase: m.Phase) -> None:
        self.phase: m.Phase = phase
        self.control = Control()
        self.thread: threading.Thread | None = None
        self._sink = sink

    @property
    def listener(self) -> Listener:
        """Says how far it is."""
        return Listener(tell=Meter(self._say), control=self.control)

    def end(self, how: EngineError | Cancelled | None) -> None:
        """Say how it ended; None is well."""
        event: m.UpdateEvent
        match how:
            case None:
                event = m.UpdateDone(phase=self.phase)
            case EngineError():
                logger.warning("%s of the update: %s", self.phase, how.message)
                event = m.UpdateFailed(phase=self.phase, error=how.info())
            case _:
                event = m.UpdateStopped(phase=self.phase)
        self._sink.emit(event)

    def _say(self, amount: Amount) -> None:
        event = m.UpdateProgress(
            phase=self.phase,
            done_mb=amount.done_mb,
            total_mb=amount.total_mb,
            mb_per_second=amount.mb_per_second,
            seconds_left=amount.seconds_left,
        )
        self._sink.emit(event)
