"""The thread that answers commands: commands in, events out; no caller ever waits for it.

Jobs and tasks have threads of their own, and files are read and plans are made in another one, so
that this thread answers at once: a pause or a removal does not wait for a drive that wakes up.
Commands are carried out in their order where that can make a difference: where they are about the
same job, or about the order of jobs.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any

from engine.core.errors import EngineError
from engine.core.file_access import reported
from engine.core.wings import wings
from engine.hardware import torch_memory
from engine.hardware.telemetry import Sampler
from engine.jobs import gpu_process
from engine.jobs.excerpts import ExcerptService, LookService
from engine.jobs.job_service import JobEnded, JobService, Steps
from engine.jobs.model_file_service import ModelFileService
from engine.jobs.run_here import prepared
from engine.jobs.services import (
    DiagnosticsService,
    ExaminationService,
    LatentService,
    OverviewService,
    PresetService,
    Service,
    ServiceHost,
)
from engine.jobs.task_runner import Task, TaskRunner
from engine.pipeline.prepare import Machine
from engine.planner.availability import devices_here
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.plan import notice_of_error
from engine.protocol.tasks import TaskKind

logger = logging.getLogger(__name__)

_ALONE = (TaskKind.BENCHMARK, TaskKind.EXCERPT, TaskKind.LOOK)  # no job runs next to them
_CLOSE_S = 5.0  # for a download to end; what was downloaded stays in any case
_READ_S = 15.0  # for a file to be read, or libraries to be loaded; a drive may not answer
_LONG = (c.Prepare, c.AddJob, c.AdoptJob, c.ChangeJob, c.ShowPlan, c.SourceExamined, c.ShowFrame)
_LOOKS = (c.ShowFrame, c.ShowPlan, c.SourceExamined)  # no later command depends on them
_POINTLESS = (  # once the end is asked for
    *_LONG,
    *(c.RetryJob, c.StartQueue, c.ExcerptCommand, c.MakeLook, c.ReadOverview, c.ExamineSource),
)


class _TaskEnded(c.Command):
    """A task has ended: a job may have waited for it."""


class _Shared(Enum):
    """A state that commands about several jobs have in common."""

    END = auto()  # of the queue, where jobs are added
    PLACES = auto()  # numbers of jobs in the queue
    NEXT = auto()  # job that starts next


_SHARES: dict[type[c.Command], set[_Shared]] = {
    c.AddJob: {_Shared.END},
    c.AdoptJob: {_Shared.END, _Shared.PLACES, _Shared.NEXT},
    c.ChangeJob: {_Shared.NEXT},  # that starts by its new choices
    c.RemoveJob: {_Shared.PLACES},
    c.RestoreJob: {_Shared.END, _Shared.PLACES, _Shared.NEXT},
    c.MoveJob: {_Shared.END, _Shared.PLACES, _Shared.NEXT},
    c.RetryJob: {_Shared.NEXT},
    c.StartQueue: {_Shared.END, _Shared.NEXT},
    c.StopQueue: {_Shared.NEXT},
    JobEnded: {_Shared.NEXT},
    _TaskEnded: {_Shared.NEXT},
}


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A command in the inbox."""

    command: c.Command
    service: Service | None
    touched: frozenset[object]  # its job, its kind of tasks and what it shares

    @property
    def holds(self) -> frozenset[object]:
        """Subjects whose later commands wait for this one."""
        return frozenset() if isinstance(self.command, _LOOKS) else self.touched


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartDone(c.Command):
    """Outcome of the long part of the command that is under way."""

    value: Any = None
    error: Exception | None = None

    def resume(self, steps: Steps) -> Callable[[], Any]:
        """Hand it to that command; returns its next long part."""
        return steps.send(self.value) if self.error is None else steps.throw(self.error)


class EngineThread(threading.Thread):
    """Owns the jobs and the services; every command comes in through `send`."""

    def __init__(self, sink: e.EventSink, machine: Machine) -> None:
        super().__init__(name="engine", daemon=True)
        self._sink, self._pretend = sink, machine.pretend
        self._inbox: list[_Waiting] = []
        self._arrived = threading.Condition()
        self._under_way: tuple[_Waiting, Steps] | None = None  # its long part is being done
        self._parts: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="reading", daemon=True)
        self._is_closing = False
        self._tasks = TaskRunner(sink, ended=lambda: self.send(_TaskEnded()))
        self._jobs = JobService(
            sink, machine, self.send, may_run=lambda: not any(map(self._tasks.runs, _ALONE))
        )
        is_measured = partial(self._tasks.runs, TaskKind.BENCHMARK)
        self._excerpts = ExcerptService(self._jobs, self.send, is_measured)
        self._host = ServiceHost(
            sink=sink,
            send=self.send,
            is_busy=lambda: self._jobs.is_running or self._tasks.runs(TaskKind.EXCERPT),
            jobs_port=lambda: self._jobs.farm_port,
        )
        self._services: tuple[Service, ...] = (
            ModelFileService(),
            self._excerpts,
            LookService(
                self._excerpts, self._jobs, partial(self._tasks.runs, TaskKind.EXAMINATION)
            ),
            DiagnosticsService(),
            LatentService(),
            ExaminationService(self.send),
            OverviewService(self._jobs),
            PresetService(machine.pretend),
            *(service for wing in wings() for service in wing.services(self._host)),
        )

    def send(self, command: c.Command) -> None:
        """Take a command; returns at once, from any thread."""
        service = next((one for one in self._services if isinstance(command, one.commands)), None)
        waiting = _Waiting(command, service, _touched(command, service))
        with self._arrived:
            if isinstance(command, c.Shutdown):
                self._is_closing = True  # reading a hundred files would take seconds
                self._inbox = [one for one in self._inbox if not _is_pointless(one)]
            if not (self._is_closing and _is_pointless(waiting)):
                self._inbox.append(waiting)
                self._arrived.notify()

    def run(self) -> None:
        """Answer commands until Shutdown."""
        sampler = Sampler(self._sink, own=torch_memory.OWN, pretend=self._pretend)
        sampler.start()
        self._reader.start()
        try:
            while not self._jobs.has_ended:
                self._answer(self._next())
        finally:
            self._parts.put(None)
            self._tasks.close(_CLOSE_S)
            self._reader.join(_READ_S)
            if self._under_way is not None:
                self._under_way[1].close()  # it may hold a job
            self._excerpts.close()
            gpu_process.PROCESS.close()
            for end in self._host.at_end:
                end(_CLOSE_S)
            sampler.stop()
            self._sink.emit(e.EngineClosed())

    def _next(self) -> _Waiting:
        """Waits for a command that can be carried out now, and takes it."""
        with self._arrived:
            while (at := self._first()) is None:
                self._arrived.wait()
            return self._inbox.pop(at)

    def _first(self) -> int | None:
        """Place of the command to carry out next; None while there is none.

        It touches nothing that an earlier one touches. One that takes long comes after all that do
        not, and a frame to look at before other files: of two hundred videos that are being added
        the selected one is seen at once.
        """
        is_reading = self._under_way is not None
        held = set(self._under_way[0].holds) if self._under_way and not self._is_closing else set()
        first: int | None = None
        for at, one in enumerate(self._inbox):
            if held.isdisjoint(one.touched):
                if not isinstance(one.command, _LONG):
                    return at
                if not is_reading and isinstance(one.command, c.ShowFrame):
                    return at
                if not is_reading and first is None:
                    first = at
            held |= one.holds
        return first

    def _read(self) -> None:
        """Do the long parts of commands, in the thread for that."""
        while (part := self._parts.get()) is not None:
            self._do(part)

    def _do(self, part: Callable[[], Any]) -> None:
        try:
            done = _PartDone(value=part())
        except Exception as err:  # noqa: BLE001 - raised where the part was asked for
            done = _PartDone(error=err)
        self.send(done)

    def _answer(self, waiting: _Waiting) -> None:
        command, service = waiting.command, waiting.service
        if isinstance(command, _PartDone):
            assert self._under_way is not None  # one part at a time
            (waiting, steps), self._under_way = self._under_way, None
            self._go_on(waiting, steps, partial(command.resume, steps))
            return
        try:
            c.check(command)
            if isinstance(command, c.ExcerptCommand | c.RunBenchmark):
                self._tasks.stop(TaskKind.LOOK)  # what the user asks for comes first
            answer = service.answer(command) if service is not None else None
        except Exception as err:  # noqa: BLE001 - logged; the engine goes on for the other jobs
            self._refuse(waiting, err)
            return
        if isinstance(answer, Task):
            self._tasks.start(answer)
        elif answer is not None:
            for event in answer:
                self._sink.emit(event)
        else:
            steps = self._carry_out(command)
            self._go_on(waiting, steps, partial(next, steps))

    def _go_on(
        self, waiting: _Waiting, steps: Steps, step: Callable[[], Callable[[], Any]]
    ) -> None:
        """Carry a command on until its next long part, or its end."""
        try:
            part = step()
        except StopIteration:
            return
        except Exception as err:  # noqa: BLE001 - logged; the engine goes on for the other jobs
            self._refuse(waiting, err)
            return
        self._under_way = waiting, steps
        self._parts.put(part)

    def _refuse(self, waiting: _Waiting, err: Exception) -> None:
        error = reported(err, type(waiting.command).__name__, logger)
        kind = waiting.service.kind if waiting.service is not None else None
        self._sink.emit(_refusal(waiting.command, kind, error))

    def _carry_out(self, command: c.Command) -> Steps:
        match command:
            case c.Prepare():
                yield self._prepare
            case c.StopTask(kind=kind, subject=subject):
                self._tasks.stop(kind, subject)
            case _TaskEnded():
                self._jobs.run_next()
            case _:
                if isinstance(command, c.StartQueue | c.RemoveJob):  # the video itself comes first
                    for kind in (TaskKind.EXCERPT, TaskKind.LOOK):
                        self._tasks.stop(kind, getattr(command, "job_id", ""))
                yield from self._jobs.carry_out(command)

    def _prepare(self) -> None:
        begin = time.monotonic()
        prepared()
        self._sink.emit(e.EngineReady(seconds=time.monotonic() - begin))
        self._sink.emit(devices_here(self._pretend))
        if not self._pretend:
            gpu_process.warm()
        for wing in wings():
            wing.tidy()
        self._excerpts.tidy()


def _touched(command: c.Command, service: Service | None) -> frozenset[object]:
    """Everything that the order of a command can matter to; its values are not checked yet."""
    touched: set[object] = {*_SHARES.get(type(command), ())}
    match command:
        case c.Prepare():  # whether a runtime could be loaded is known then
            touched.add(TaskKind.RUNTIME)
        case c.StopTask(kind=str(kind)):
            touched.add(kind)
    if isinstance(job_id := getattr(command, "job_id", None), str):
        touched.add(job_id)
    return frozenset(touched if service is None else {*touched, service.kind})


def _is_pointless(waiting: _Waiting) -> bool:
    return isinstance(waiting.command, _POINTLESS)


def _refusal(command: c.Command, kind: TaskKind | None, error: EngineError) -> e.Event:
    """Report the error of a command to the user."""
    job_id = str(getattr(command, "job_id", ""))  # of a refused command it may be anything
    if kind is not None:
        return e.TaskFailed(kind=kind, subject=job_id, error=error.info())
    match command:
        case c.AddJob() | c.AdoptJob():
            source = str(getattr(command, "source", job_id))
            return e.JobRejected(job_id=job_id, source=source, error=error.info())
        case c.ChangeJob():
            return e.PlanFailed(job_id=job_id, error=error.info())
    return e.Warned(job_id=job_id, notice=notice_of_error(error, "warning"))
