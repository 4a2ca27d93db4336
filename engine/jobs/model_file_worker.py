"""The one thread that downloads, reads and copies model files, so that jobs go on meanwhile."""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from engine.core.control import Control
from engine.core.errors import Cancelled, EngineError
from engine.downloads.transfer import Listener
from engine.jobs.internal_error import internal
from engine.jobs.model_file_service import Answer, WeightsDesk
from engine.jobs.progress_meter import Amount, Meter
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.model_file_state import Phase

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """One thing to do with one file."""

    file: str
    phase: Phase
    do: Callable[[Listener], Answer]
    control: Control = field(default_factory=Control)


class WeightsWorker:
    """Answers weights commands; what takes time waits for its turn in a thread of its own.

    Memory: one task runs; those that wait are a name each.
    """

    def __init__(self, sink: e.EventSink, desk: WeightsDesk | None = None) -> None:
        self._sink = sink
        self._desk = desk or WeightsDesk()
        self._guard = threading.Lock()
        self._waiting: deque[_Task] = deque()
        self._running: _Task | None = None
        self._bell: queue.SimpleQueue[bool] = queue.SimpleQueue()  # True: look; False: end
        self._thread: threading.Thread | None = None

    def answer(self, command: c.WeightsCommand) -> None:
        """Take a command: lists, removes and stops at once, notes the rest for the thread."""
        desk = self._desk
        match command:
            case c.ListWeights():
                self._sink.emit(desk.listed())
            case c.GetWeights(file=file):
                self._note(_Task(file=file, phase="download", do=partial(desk.get, file)))
            case c.VerifyWeights(file=file):
                self._note(_Task(file=file, phase="verify", do=partial(desk.verify, file)))
            case c.ImportWeights(path=path, mode=mode):
                take = partial(desk.take, path, mode)
                self._note(_Task(file=str(path), phase="import", do=take))
            case c.RemoveWeights(file=file):
                remove = partial(desk.remove, file)
                self._finish(_Task(file=file, phase="remove", do=lambda _: remove()))
            case c.StopWeights(file=file):
                self._stop(file)

    def close(self, timeout_s: float) -> None:
        """End what runs within that time; what was loaded stays for the next start."""
        with self._guard:
            self._waiting.clear()
            if self._running is not None:
                self._running.control.cancel()
        if self._thread is not None:
            self._bell.put(False)
            self._thread.join(timeout_s)

    # --- waiting

    def _note(self, task: _Task) -> None:
        with self._guard:
            known = [*self._waiting, *([self._running] if self._running else [])]
            if any((t.file, t.phase) == (task.file, task.phase) for t in known):
                return  # asked twice
            self._waiting.append(task)
        waits = e.WeightsProgress(file=task.file, phase=task.phase, done_mb=0.0, total_mb=0.0)
        self._sink.emit(waits)
        self._bell.put(True)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="weights", daemon=True)
            self._thread.start()

    def _stop(self, file: str) -> None:
        with self._guard:
            dropped = [task for task in self._waiting if task.file == file]
            for task in dropped:
                self._waiting.remove(task)
            if self._running is not None and self._running.file == file:
                self._running.control.cancel()
        for task in dropped:
            self._end(e.WeightsStopped(file=task.file, phase=task.phase))

    # --- in the thread

    def _work(self) -> None:
        while self._bell.get():
            with self._guard:
                self._running = self._waiting.popleft() if self._waiting else None
            if self._running is not None:
                self._finish(self._running)

    def _finish(self, task: _Task) -> None:
        ended = self._ended(task)
        with self._guard:
            if self._running is task:
                self._running = None
        self._end(ended)

    def _ended(self, task: _Task) -> e.WeightsEvent:
        """Do it, and say how it ended."""
        listener = Listener(on_progress=Meter(partial(self._say, task)), control=task.control)
        error: EngineError
        try:
            result, notice = task.do(listener)
            return e.WeightsDone(file=task.file, phase=task.phase, result=result, notice=notice)
        except Cancelled:
            return e.WeightsStopped(file=task.file, phase=task.phase)
        except EngineError as err:
            logger.warning("%s of %s: %s", task.phase, task.file, err.message)
            error = err
        except Exception as err:  # a mistake of ours ends this task, not the thread
            logger.exception("%s of %s", task.phase, task.file)
            error = internal(err)
        return e.WeightsFailed(file=task.file, phase=task.phase, error=error.info())

    def _say(self, task: _Task, amount: Amount) -> None:
        event = e.WeightsProgress(
            file=task.file,
            phase=task.phase,
            done_mb=amount.done_mb,
            total_mb=amount.total_mb,
            mb_per_second=amount.mb_per_second,
            seconds_left=amount.seconds_left,
        )
        self._sink.emit(event)

    def _end(self, ended: e.WeightsEvent) -> None:
        self._sink.emit(ended)
        self._sink.emit(self._desk.listed())
