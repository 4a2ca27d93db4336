"""The one thread that runs jobs: commands in, events out; nobody ever waits for it.

A running job has threads of its own, so that this one answers at once.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from engine.core.control import Control
from engine.core.errors import (
    Cancelled,
    EngineError,
    JobError,
    UnknownJob,
)
from engine.hardware import torch_memory
from engine.hardware.telemetry import Sampler
from engine.jobs.bench_service import BenchDesk
from engine.jobs.checkpoint import check_unchanged
from engine.jobs.internal_error import internal
from engine.jobs.job import Job, JobState
from engine.jobs.job_queue import JobQueue
from engine.jobs.job_store import JobStore
from engine.jobs.latent_service import LatentDesk
from engine.jobs.model_file_worker import WeightsWorker
from engine.jobs.preset_service import PresetDesk
from engine.jobs.runner import prepared, run
from engine.jobs.runtime_service import RuntimeDesk
from engine.jobs.update_service import UpdateDesk
from engine.pipeline.prepare import Machine, make_plan
from engine.pipeline.sources import decoded, described, probe_source
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol import update_messages as m
from engine.protocol.plan import Notice

logger = logging.getLogger(__name__)

_LEAVE_S = 5.0  # for a download to end; what it has loaded stays in any case


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended(c.Command):
    """A job's thread says how it ended; exactly one of the two is given."""

    job: Job
    event: e.JobEvent
    state: JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class _BenchEnded(c.Command):
    """The benchmark measures no more."""


class EngineThread(threading.Thread):
    """Owns the queue of jobs; everything comes in through `send`."""

    def __init__(self, sink: e.EventSink, machine: Machine) -> None:
        super().__init__(name="engine", daemon=True)
        self._sink = sink
        self._machine = machine
        self._inbox: queue.SimpleQueue[c.Command] = queue.SimpleQueue()
        self._jobs = JobQueue()
        self._store = JobStore(machine.jobs_folder)
        self._is_open = True
        self._worker: threading.Thread | None = None
        self._leaving = False
        self._weights = WeightsWorker(sink)
        self._runtimes = RuntimeDesk(sink)
        self._updates = UpdateDesk(sink)
        self._latents = LatentDesk(sink)
        self._bench = BenchDesk(sink, lambda: self.send(_BenchEnded()))
        self._presets = PresetDesk(sink, machine.pretend)
        self._handlers: dict[type[c.Command], Callable[[Any], None]] = {
            c.Prepare: self._prepare,
            c.AddJob: self._add,
            c.AdoptJob: self._adopt,
            c.ChangeJob: self._change,
            c.RemoveJob: self._remove,
            c.MoveJob: self._move,
            c.RetryJob: self._retry,
            c.StartQueue: self._start_queue,
            c.StopQueue: self._stop_queue,
            c.PauseJob: self._pause,
            c.ResumeJob: self._resume,
            c.CancelJob: self._cancel,
            c.ShowFrame: self._show_frame,
            c.ShowLatent: self._latents.answer,
            c.ListPresets: self._presets.answer,
            c.SavePreset: self._presets.answer,
            c.RemovePreset: self._presets.answer,
            c.ExportPreset: self._presets.answer,
            c.ImportPreset: self._presets.answer,
            c.ListWeights: self._weights.answer,
            c.GetWeights: self._weights.answer,
            c.VerifyWeights: self._weights.answer,
            c.ImportWeights: self._weights.answer,
            c.RemoveWeights: self._weights.answer,
            c.StopWeights: self._weights.answer,
            c.ListRuntimes: self._runtimes.answer,
            c.InstallRuntime: self._runtimes.answer,
            c.ImportRuntime: self._runtimes.answer,
            c.UseRuntime: self._runtimes.answer,
            c.RemoveRuntime: self._runtimes.answer,
            c.StopRuntime: self._runtimes.answer,
            m.ShowUpdate: self._updates.answer,
            m.CheckUpdate: self._updates.answer,
            m.DownloadUpdate: self._updates.answer,
            m.InstallUpdate: self._updates.answer,
            m.StopUpdate: self._updates.answer,
            c.ChangeEngine: self._change_engine,
            c.RunBench: self._run_bench,
            c.StopBench: self._stop_bench,
            _BenchEnded: self._bench_ended,
            c.Shutdown: self._shutdown,
            _Ended: self._ended,
        }
        self._queue_runs = False
        self._bench_runs = False

    def send(self, command: c.Command) -> None:
        """Take a command; returns at once, from any thread."""
        self._inbox.put(command)

    def run(self) -> None:
        """Answer commands until Shutdown."""
        sampler = Sampler(self._sink, own=torch_memory.OWN)
        sampler.start()
        try:
            while self._is_open:
                self._answer(self._inbox.get())
        finally:
            self._weights.close(_LEAVE_S)
            self._runtimes.close(_LEAVE_S)
            self._updates.close(_LEAVE_S)
            self._latents.close(_LEAVE_S)
            self._bench.close(_LEAVE_S)
            sampler.stop()
            self._sink.emit(e.EngineClosed())

    def _answer(self, command: c.Command) -> None:
        try:
            self._handlers[type(command)](command)
        except EngineError as err:
            self._refuse(command, err)
        except Exception as err:  # the engine must go on for the other jobs
            logger.exception("while answering %s", type(command).__name__)
            self._refuse(command, internal(err))

    def _refuse(self, command: c.Command, error: EngineError) -> None:
        job_id = getattr(command, "job_id", "")
        logger.warning("%s %s: %s", type(command).__name__, job_id, error.message)
        if isinstance(command, c.AddJob | c.AdoptJob):
            source = str(getattr(command, "source", job_id))
            self._sink.emit(e.JobRejected(job_id=job_id, source=source, error=error.info()))
        elif isinstance(command, c.ChangeJob):
            self._sink.emit(e.PlanFailed(job_id=job_id, error=error.info()))
        else:
            notice = Notice(
                code=error.code, severity="warning", message=error.message, hint=error.hint
            )
            self._sink.emit(e.Warned(job_id=job_id, notice=notice))

    def _change_engine(self, command: c.ChangeEngine) -> None:
        self._machine = replace(self._machine, settings=command.settings)

    # --- the queue

    def _prepare(self, command: c.Prepare) -> None:
        begin = time.monotonic()
        prepared()
        self._sink.emit(e.EngineReady(seconds=time.monotonic() - begin))
        self._updates.tidy()

    def _add(self, command: c.AddJob) -> None:
        media = probe_source(command.source, command.settings)
        plan = make_plan(media, command.settings, command.output, self._machine)
        job = Job(
            id=command.job_id,
            media=media,
            settings=command.settings,
            output=command.output,
            plan=plan,
        )
        self._enqueue(job)

    def _adopt(self, command: c.AdoptJob) -> None:
        stored = self._store.load(command.job_id)
        with self._store.held(command.job_id):
            check_unchanged(stored)
        job = Job(
            id=stored.id,
            media=stored.media,
            settings=stored.settings,
            output=stored.output,
            plan=stored.plan,
        )
        self._enqueue(job)

    def _enqueue(self, job: Job) -> None:
        if any(other.id == job.id for other in self._jobs):
            raise JobError(f"The job {job.id} is in the queue already.", job=job.id)
        self._jobs.add(job)
        self._sink.emit(e.JobQueued(job_id=job.id, media=job.media))
        self._sink.emit(e.PlanChosen(job_id=job.id, plan=job.plan))
        self._run_next()

    def _change(self, command: c.ChangeJob) -> None:
        job = self._idle(command.job_id)
        job.plan_error = None
        try:
            media = described(job.media, command.settings)
            plan = make_plan(media, command.settings, command.output, self._machine)
        except EngineError as err:
            job.plan_error = err
            raise
        job.media, job.plan = media, plan
        job.settings, job.output = command.settings, command.output
        self._store.remove(job.id)  # segments of other settings do not fit
        self._sink.emit(e.PlanChosen(job_id=job.id, plan=plan))

    def _remove(self, command: c.RemoveJob) -> None:
        if any(job.id == command.job_id for job in self._jobs):
            self._jobs.remove(self._idle(command.job_id))
        elif command.job_id not in self._store.ids():
            raise UnknownJob(f"There is no job {command.job_id}.", job=command.job_id)
        with self._store.held(command.job_id):
            pass  # refuses while another program is at it
        self._store.remove(command.job_id)
        self._sink.emit(e.JobRemoved(job_id=command.job_id))

    def _move(self, command: c.MoveJob) -> None:
        self._jobs.move(self._jobs.get(command.job_id), command.position)

    def _retry(self, command: c.RetryJob) -> None:
        job = self._idle(command.job_id)
        job.move_to(JobState.WAITING)
        job.control = Control()
        self._sink.emit(e.JobQueued(job_id=job.id, media=job.media))
        self._sink.emit(e.PlanChosen(job_id=job.id, plan=job.plan))
        self._run_next()

    def _idle(self, job_id: str) -> Job:
        job = self._jobs.get(job_id)
        if job.is_active:
            raise JobError("The job is running.", hint="Cancel it first.", job=job_id)
        return job

    # --- running

    def _start_queue(self, command: c.StartQueue) -> None:
        self._queue_runs = True
        self._run_next()

    def _stop_queue(self, command: c.StopQueue) -> None:
        self._queue_runs = False

    def _run_next(self) -> None:
        job = self._jobs.next_waiting
        if not self._queue_runs or self._worker is not None or job is None:
            return
        if self._bench_runs:  # both would be wrong about the time; its end comes back here
            return
        job.move_to(JobState.RUNNING)
        self._worker = threading.Thread(
            target=self._work, args=(job,), name=f"job {job.id}", daemon=True
        )
        self._worker.start()

    def _work(self, job: Job) -> None:
        """In the job's own thread: run it and say how it ended."""
        event: e.JobEvent
        try:
            report = run(job, self._store, self._machine, self._sink)
            state, event = JobState.FINISHED, e.JobFinished(job_id=job.id, report=report)
        except Cancelled:
            state, event = JobState.CANCELLED, e.JobCancelled(job_id=job.id)
        except EngineError as err:
            logger.warning("job %s: %s", job.id, err.message, exc_info=True)
            state, event = JobState.FAILED, e.JobFailed(job_id=job.id, error=err.info())
        except Exception as err:  # a mistake of ours ends the job, not the program
            logger.exception("job %s", job.id)
            state, event = JobState.FAILED, e.JobFailed(job_id=job.id, error=internal(err).info())
        self.send(_Ended(job=job, event=event, state=state))

    def _ended(self, command: _Ended) -> None:
        if self._worker is not None:
            self._worker.join()
        self._worker = None
        job = command.job
        if self._leaving and command.state is JobState.CANCELLED:
            job.move_to(JobState.WAITING)
            self._is_open = False
            return
        job.move_to(command.state)
        self._sink.emit(command.event)
        if self._leaving:
            self._is_open = False
        else:
            self._run_next()

    def _pause(self, command: c.PauseJob) -> None:
        job = self._jobs.get(command.job_id)
        job.move_to(JobState.PAUSED)
        job.control.pause()
        self._sink.emit(e.JobPaused(job_id=job.id))

    def _resume(self, command: c.ResumeJob) -> None:
        job = self._jobs.get(command.job_id)
        job.move_to(JobState.RUNNING)
        job.control.resume()
        self._sink.emit(e.JobResumed(job_id=job.id))

    def _cancel(self, command: c.CancelJob) -> None:
        job = self._jobs.get(command.job_id)
        if job.is_active:
            job.control.cancel()
        else:
            job.move_to(JobState.CANCELLED)
            self._sink.emit(e.JobCancelled(job_id=job.id))

    def _shutdown(self, command: c.Shutdown) -> None:
        self._leaving = True
        active = self._jobs.active
        if active is None:
            self._is_open = False
        else:
            active.control.cancel()

    # --- measuring

    def _run_bench(self, command: c.RunBench) -> None:
        if self._worker is not None:
            self._bench.refuse(
                JobError("A job is running.", hint="Measure when it has ended, or cancel it first.")
            )
            return
        if not self._bench_runs:  # one that runs already goes on
            self._bench_runs = True
            self._bench.start(command)

    def _stop_bench(self, command: c.StopBench) -> None:
        self._bench.stop()

    def _bench_ended(self, command: _BenchEnded) -> None:
        self._bench_runs = False
        self._run_next()

    # --- looking

    def _show_frame(self, command: c.ShowFrame) -> None:
        from engine.pipeline.preview import frame_picture
        from engine.video.read.probe import probe

        job = self._jobs.get(command.job_id)
        media = decoded(job.media, job.plan, self._store.folder(job.id))
        source = None
        if media is not None:
            source = frame_picture(media, command.seconds, command.longest_side)
        result = None
        if job.state is JobState.FINISHED and job.plan.output.exists():
            made = probe(job.plan.output)
            shift = float(job.plan.start or 0)
            result = frame_picture(made, command.seconds - shift, command.longest_side)
        rate = job.plan.picture.frame_rate
        self._sink.emit(
            e.PreviewReady(
                job_id=job.id,
                frame=round(command.seconds * rate),
                seconds=command.seconds,
                source=source,
                result=result,
            )
        )
