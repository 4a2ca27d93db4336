"""The thread that answers commands: commands in, events out; no caller ever waits for it.

Jobs and tasks have threads of their own, so that this one answers at once.
"""

from __future__ import annotations

import logging
import threading
import time
from functools import partial

from engine.core.errors import EngineError
from engine.core.file_access import reported
from engine.core.wings import wings
from engine.hardware import torch_memory
from engine.hardware.telemetry import Sampler
from engine.jobs import gpu_process
from engine.jobs.excerpts import ExcerptService, LookService
from engine.jobs.job_service import JobService
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
_LOOKED_AT = (c.ShowFrame, c.MakeLook)  # come before files that are still to be read
_CLOSE_S = 5.0  # for a download to end; what was downloaded stays in any case
_POINTLESS = (  # once the end is asked for
    *(c.Prepare, c.AddJob, c.AdoptJob, c.ChangeJob, c.RetryJob, c.StartQueue),
    *(c.ShowFrame, c.ShowPlan, c.ExcerptCommand, c.MakeLook, c.ReadOverview),
)


class _TaskEnded(c.Command):
    """A task has ended: a job may have waited for it."""


class EngineThread(threading.Thread):
    """Owns the jobs and the services; every command comes in through `send`."""

    def __init__(self, sink: e.EventSink, machine: Machine) -> None:
        super().__init__(name="engine", daemon=True)
        self._sink, self._pretend = sink, machine.pretend
        self._inbox: list[c.Command] = []
        self._arrived = threading.Condition()
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
        with self._arrived:
            self._inbox.append(command)
            self._arrived.notify()
        if isinstance(command, c.Shutdown):
            self._is_closing = True

    def run(self) -> None:
        """Answer commands until Shutdown."""
        sampler = Sampler(self._sink, own=torch_memory.OWN, pretend=self._pretend)
        sampler.start()
        try:
            while not self._jobs.has_ended:
                self._answer(self._next())
        finally:
            self._tasks.close(_CLOSE_S)
            self._excerpts.close()
            gpu_process.PROCESS.close()
            for end in self._host.at_end:
                end(_CLOSE_S)
            sampler.stop()
            self._sink.emit(e.EngineClosed())

    def _next(self) -> c.Command:
        """Waits for a command and takes it.

        Commands are answered in their order, but a frame that is looked at comes before other files
        that are still to be read: of two hundred videos the selected one is seen at once.
        """
        with self._arrived:
            self._arrived.wait_for(lambda: self._inbox)
            read = list[str]()
            for at, command in enumerate(self._inbox):
                if isinstance(command, _LOOKED_AT) and command.job_id not in read:
                    return self._inbox.pop(at)
                if not isinstance(command, (c.AddJob, c.AdoptJob)):
                    break
                read.append(command.job_id)
            return self._inbox.pop(0)

    def _answer(self, command: c.Command) -> None:
        if self._is_closing and isinstance(command, _POINTLESS):
            return  # a hundred files that were added a moment ago take seconds to read
        service = next((s for s in self._services if isinstance(command, s.commands)), None)
        try:
            c.check(command)
            if isinstance(command, c.ExcerptCommand | c.RunBenchmark):
                self._tasks.stop(TaskKind.LOOK)  # what the user asks for comes first
            if service is None:
                self._carry_out(command)
                return
            answer = service.answer(command)
        except Exception as err:  # noqa: BLE001 - logged; the engine goes on for the other jobs
            error = reported(err, type(command).__name__, logger)
            kind = service.kind if service is not None else None
            self._sink.emit(_refusal(command, kind, error))
            return
        if isinstance(answer, Task):
            self._tasks.start(answer)
        else:
            for event in answer:
                self._sink.emit(event)

    def _carry_out(self, command: c.Command) -> None:
        match command:
            case c.Prepare():
                begin = time.monotonic()
                prepared()
                self._sink.emit(e.EngineReady(seconds=time.monotonic() - begin))
                self._sink.emit(devices_here(self._pretend))
                if not self._pretend:
                    gpu_process.warm()
                for wing in wings():
                    wing.tidy()
                self._excerpts.tidy()
            case c.StopTask(kind=kind, subject=subject):
                self._tasks.stop(kind, subject)
            case _TaskEnded():
                self._jobs.run_next()
            case _:
                if isinstance(command, c.StartQueue | c.RemoveJob):  # the video itself comes first
                    for kind in (TaskKind.EXCERPT, TaskKind.LOOK):
                        self._tasks.stop(kind, getattr(command, "job_id", ""))
                self._jobs.carry_out(command)


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
