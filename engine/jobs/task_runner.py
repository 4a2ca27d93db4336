"""Runs tasks in the background: a lane for each kind, and one task of a lane at a time."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from engine.core.control import Control
from engine.core.errors import Cancelled, EngineError
from engine.core.file_access import reported
from engine.core.messages import Message
from engine.protocol import events as e
from engine.protocol.plan import Notice
from engine.protocol.tasks import Phase, Result, TaskKind

E = TypeVar("E", bound=e.TaskEvent)
logger = logging.getLogger(__name__)

_PROGRESS_EVERY_S = 0.25
_SPEED_OVER_S = 5.0
_MB = 1e6


class RunningTask(Protocol):
    """Receiver of the reports of a running task; it may cancel the task through `control`."""

    @property
    def control(self) -> Control:
        """Cancels the task."""
        ...

    def begin(self, phase: Phase, subject: str = "") -> None:
        """Enter another phase, under another subject where one is given."""
        ...

    def progress(self, done: int, total: int) -> None:
        """Report finished and total bytes; the total is 0 while unknown."""
        ...

    def step(self, done: int, total: int, name: Message | None) -> None:
        """Report finished steps or frames; `name` is the step that begins, None at the end."""
        ...

    def emit(self, event: e.Event) -> None:
        """Emit what has been found before the end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Report of a task that ended well."""

    result: Result | None = None
    notice: Notice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Something that takes a while.

    A task waits while another of its kind runs, unless `turn` or `busy` say otherwise.
    """

    kind: TaskKind
    do: Callable[[RunningTask], Outcome | None]
    subject: str = ""
    phase: Phase = ""
    turn: Literal["waits", "replaces", "at-once"] = "waits"  # "replaces": those that wait
    busy: Callable[[str], EngineError] | None = None  # refuses it, by the subject of what runs
    # Event of a state that may have changed; emitted before the task ends.
    state: Callable[[], e.Event] | None = None


class TaskRunner:
    """Starts, stops and reports tasks of all kinds.

    Memory: one task of each kind runs; those that wait are a few names each.

    Args:
        sink: Gets the events.
        ended: Called whenever a task has ended, before its last event is emitted.
    """

    def __init__(self, sink: e.EventSink, ended: Callable[[], None] = lambda: None) -> None:
        self._sink, self._ended = sink, ended
        self._lanes = {kind: _Lane(kind, self._run) for kind in TaskKind}

    def start(self, task: Task) -> None:
        """Run a task when it has its turn; returns at once, except for a task "at-once"."""
        lane, run = self._lanes[task.kind], _Run(task, self._sink)
        first = lane.first
        if task.turn == "at-once":
            self._run(run)
        elif task.busy is not None and first is not None:
            error = reported(task.busy(first.subject), _name(task), logger)
            self._sink.emit(run.event(e.TaskFailed, error=error.info()))
        else:
            if task.turn == "waits" and task.busy is None:
                run.report()  # it waits
            lane.put(run)

    def stop(self, kind: TaskKind, subject: str = "") -> None:
        """Cancel what runs and drop what waits, of one subject or all; events report the end."""
        for run in self._lanes[kind].stop(subject):
            self._end(run, run.event(e.TaskStopped))

    def runs(self, kind: TaskKind) -> bool:
        """Whether a task of that kind runs or waits."""
        return self._lanes[kind].first is not None

    def close(self, timeout_s: float) -> None:
        """Cancel everything and wait for each thread; what was downloaded stays."""
        for lane in self._lanes.values():
            lane.close()
        for lane in self._lanes.values():
            lane.join(timeout_s)

    def _run(self, run: _Run) -> None:
        """Do a task and emit how it ended."""
        end = _done(run)
        self._lanes[run.task.kind].clear(run)  # first: the answer to the end may be the next task
        self._end(run, end)

    def _end(self, run: _Run, end: e.TaskEvent) -> None:
        self._ended()
        if run.task.state is not None:
            try:
                self._sink.emit(run.task.state())
            except Exception as err:  # noqa: BLE001 - logged; the end is reported all the same
                reported(err, f"state after {_name(run.task)}", logger)
        self._sink.emit(end)


def _done(run: _Run) -> e.TaskEvent:
    """Do a task in this thread; how it ended."""
    try:
        outcome = run.task.do(run) or Outcome()
        return run.event(e.TaskDone, result=outcome.result, notice=outcome.notice)
    except Cancelled:
        return run.event(e.TaskStopped)
    except Exception as err:  # noqa: BLE001 - logged; it becomes an event
        if run.control.is_cancelled:  # its files may be gone already
            logger.info("%s, which was stopped: %s", _name(run.task), err)
            return run.event(e.TaskStopped)
        error = reported(err, _name(run.task), logger)
        return run.event(e.TaskFailed, error=error.info())


def _name(task: Task) -> str:
    return f"{task.kind} {task.phase} {task.subject}".strip()


class _Lane:
    """Waiting and running tasks of one kind, and their thread."""

    def __init__(self, name: str, run: Callable[[_Run], None]) -> None:
        self._name, self._do = name, run
        self._bell = threading.Condition()
        self._waiting: deque[_Run] = deque()
        self._thread: threading.Thread | None = None
        self._is_open = True
        self._running: _Run | None = None

    @property
    def first(self) -> _Run | None:
        """The one that runs, or will run next."""
        with self._bell:
            return self._running or next(iter(self._waiting), None)

    def put(self, run: _Run) -> None:
        with self._bell:
            if run.task.turn == "replaces":
                self._waiting.clear()
            self._waiting.append(run)
            self._bell.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()

    def stop(self, subject: str) -> list[_Run]:
        """Cancel the one that runs; those that waited are returned, and wait no more."""
        with self._bell:
            dropped = [run for run in self._waiting if subject in ("", run.subject)]
            self._waiting = deque(run for run in self._waiting if run not in dropped)
            if self._running is not None and subject in ("", self._running.subject):
                self._running.control.cancel()
        return dropped

    def clear(self, run: _Run) -> None:
        """A task has ended."""
        with self._bell:
            if self._running is run:
                self._running = None

    def close(self) -> None:
        with self._bell:
            self._is_open = False
            self._waiting.clear()
            self._bell.notify()
            if self._running is not None:
                self._running.control.cancel()

    def join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _work(self) -> None:
        while (run := self._next()) is not None:
            self._do(run)

    def _next(self) -> _Run | None:
        with self._bell:
            self._bell.wait_for(lambda: self._waiting or not self._is_open)
            self._running = self._waiting.popleft() if self._waiting else None
            return self._running


class _Run:
    """A running task; implements `RunningTask`."""

    def __init__(self, task: Task, sink: e.EventSink) -> None:
        self.task = task
        self.control = Control()
        self.subject, self._phase = task.subject, task.phase
        self._sink = sink
        self._due = 0.0
        self._seen: deque[tuple[float, int]] = deque()

    def emit(self, event: e.Event) -> None:
        self._sink.emit(event)

    def begin(self, phase: Phase, subject: str = "") -> None:
        self._phase, self.subject = phase, subject or self.subject
        self._seen.clear()
        self._due = 0.0
        self.report()

    def step(self, done: int, total: int, name: Message | None) -> None:
        self._sink.emit(self.event(e.TaskProgress, done=done, total=total, step=name))

    def progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._due and done != total:
            return
        self._due = now + _PROGRESS_EVERY_S
        self.report(done, total, self._speed(now, done))

    def report(self, done: int = 0, total: int = 0, speed: float = 0.0) -> None:
        """Emit bytes and bytes a second."""
        event = self.event(
            e.TaskProgress,
            done=done / _MB,
            total=total / _MB,
            per_second=speed / _MB,
            seconds_left=(total - done) / speed if speed and total else 0.0,
        )
        self._sink.emit(event)

    def event(self, make: type[E], **values: Any) -> E:
        """An event about this task as it is now."""
        return make(kind=self.task.kind, subject=self.subject, phase=self._phase, **values)

    def _speed(self, now: float, done: int) -> float:
        """Bytes a second; 0 while unknown."""
        if self._seen and done < self._seen[-1][1]:
            self._seen.clear()  # it starts again
        self._seen.append((now, done))
        while now - self._seen[0][0] > _SPEED_OVER_S and len(self._seen) > 2:
            self._seen.popleft()
        since, before = self._seen[0]
        return (done - before) / (now - since) if now > since else 0.0
