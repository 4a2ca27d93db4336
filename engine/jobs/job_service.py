"""Answers commands about jobs: their queue, the one that runs, and frames to look at."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Generator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.core import paths
from engine.core.control import Control
from engine.core.errors import Cancelled, ContainerMismatch, EngineError, JobError, UnknownJob
from engine.core.file_access import is_folder, reported
from engine.hardware.process import keep_awake
from engine.jobs.checkpoint import (
    Checkpoint,
    check_unchanged,
    has_only_other_name,
    with_fate_of_segments,
)
from engine.jobs.job import Job, JobQueue, JobState
from engine.jobs.job_store import JobStore, StoredJob
from engine.jobs.made_results import mark_of
from engine.jobs.reading_marks import being_read, check_safe
from engine.jobs.stored_run import run_stored
from engine.pipeline.prepare import (
    Machine,
    described,
    make_plan,
    probe_source,
    taken_up,
    with_model_of,
)
from engine.planner.target import pictures_target
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from engine.video.film_preparation import source_notices
from engine.video.write.containers import has_format_of

logger = logging.getLogger(__name__)

Steps = Generator[Callable[[], Any], Any, None]  # yields its long parts and receives their results


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded(c.Command):
    """Outcome of a job, from its thread."""

    event: e.JobEvent
    state: JobState


@dataclass(frozen=True, slots=True)
class _Running:
    """The job that runs or is paused, and its thread."""

    job: Job
    thread: threading.Thread


class JobService:
    """Owns the queue of jobs; runs one at a time in a thread of its own.

    Args:
        sink: Gets the events.
        machine: For plans; its settings change with ChangeEngine.
        send: Brings a command back to `carry_out`, in the thread that calls that.
        may_run: Whether a job may start now; `run_next` tries again.
    """

    def __init__(
        self,
        sink: e.EventSink,
        machine: Machine,
        send: Callable[[c.Command], None],
        may_run: Callable[[], bool],
    ) -> None:
        self._sink, self._machine = sink, machine
        self._send, self._may_run = send, may_run
        self._jobs = JobQueue()
        self._removed: dict[str, Job] = {}  # that can come back
        self._store = JobStore(machine.jobs_folder)
        self._running: _Running | None = None
        self._awake = ExitStack()  # used in the engine thread alone; empty while a job is paused
        self._queue_runs = self._skips_refused = False
        self._is_closing = False

    @property
    def farm_port(self) -> int:
        """Port for other computers while a job uses them."""
        return self._machine.settings.farm_port

    @property
    def is_running(self) -> bool:
        """Whether a job has a thread."""
        return self._running is not None

    @property
    def machine(self) -> Machine:
        """Environment that jobs are planned for now."""
        return self._machine

    def job(self, job_id: str) -> Job:
        """The job of that name.

        Raises:
            UnknownJob: There is none.
        """
        return self._jobs.get(job_id)

    @property
    def has_ended(self) -> bool:
        """Whether Shutdown was asked for, and no job runs any more."""
        return self._is_closing and self._running is None

    def carry_out(self, command: c.Command) -> Steps:
        """Carry out a command and emit what has changed.

        Files are read and plans are made in what this yields: any thread may do it, while other
        commands are carried out. The rest is done in one thread, which alone touches the jobs.

        Raises:
            EngineError: It cannot be done.
        """
        match command:
            case c.AddJob():
                yield from self._add(command)
            case c.SourceExamined():
                yield from self._examined(command)
            case c.AdoptJob():
                yield from self._adopt(command)
            case c.ChangeJob():
                yield from self._change(command)
            case c.ShowPlan(job_id=job_id, settings=settings):
                yield from self._show_plan(self._jobs.get(job_id), settings)
            case c.RemoveJob(job_id=job_id, can_return=True):
                self._set_aside(job_id)
            case c.RemoveJob(job_id=job_id):
                self._remove(job_id)
            case c.RestoreJob(job_id=job_id, position=position):
                self._restore(job_id, position)
            case c.MoveJob(job_id=job_id, position=position):
                self._jobs.move(self._jobs.get(job_id), position)
            case c.RetryJob(job_id=job_id, accept=accept):
                self._retry(job_id, accept=accept)
            case c.StartQueue(skips_refused=skips_refused):
                self._queue_runs, self._skips_refused = True, skips_refused
                self.run_next()
            case c.StopQueue():
                self._queue_runs = False
            case c.PauseJob(job_id=job_id):
                self._pause(job_id)
            case c.ResumeJob(job_id=job_id):
                self._resume(job_id)
            case c.CancelJob(job_id=job_id):
                self._cancel(job_id)
            case c.ShowFrame():
                yield from self._show_frame(command)
            case c.ExcerptMade():
                self._take_excerpt(command)
            case c.ChangeEngine(settings=settings):
                self._machine = replace(self._machine, settings=settings)
            case c.Shutdown():
                self._shutdown()
            case JobEnded():
                self._ended(command)
            case _:
                raise TypeError(f"no answer to {type(command).__name__}")

    def _add(self, command: c.AddJob) -> Steps:
        self._store.folder(command.job_id)  # refuses what is no name
        if command.job_id in self._store.ids():
            raise JobError("begun-already", job=command.job_id)
        job = yield partial(_read_job, command, self._machine_for(command.job_id))
        self._enqueue(job)
        self._send(c.ExamineSource(job_id=job.id, media=job.media))

    def _machine_for(self, job_id: str) -> Machine:
        """The machine, with the names that results of the other jobs have."""
        others = (job.plan.output for job in self._jobs if job.id != job_id)
        return replace(self._machine, taken=frozenset(others))

    def _examined(self, command: c.SourceExamined) -> Steps:
        """Plan a job again that waits, where what its source shows changes the plan."""
        job = next((one for one in self._jobs if one.id == command.job_id), None)
        if job is None or job.state is not JobState.WAITING or job.media.findings is not None:
            return
        if job.media.video.index != command.media.video.index:
            return  # another video track was chosen meanwhile
        is_other = job.media.video != command.media.video
        job.media = command.media
        notices = tuple(source_notices(job.media, job.settings))
        if is_other or any(notice not in job.plan.notices for notice in notices):
            about = job.media, job.settings, job.output
            plan = yield partial(make_plan, *about, self._machine_for(job.id))
            if job not in self._jobs or job.state is not JobState.WAITING:
                return  # it was removed, or its start plans it again
            job.plan = plan
            media = job.media if is_other else None
            self._sink.emit(e.PlanChosen(job_id=job.id, plan=job.plan, media=media))

    def _adopt(self, command: c.AdoptJob) -> Steps:
        job_id, accept = command.job_id, command.accept
        machine = self._machine_for(job_id)
        try:
            stored = _with_result(self._store.load(job_id), command, machine.taken)
        except UnknownJob:
            if command.otherwise is None:
                raise
            self._send(command.otherwise)
            return
        job = Job(
            id=stored.id,
            media=stored.media,
            settings=stored.settings,
            output=stored.output,
            plan=stored.plan,
            is_accepted=accept,
        )
        with self._store.held(job_id), self._store.failure_kept(job_id):
            checkpoint = Checkpoint(self._store.folder(job_id))
            if command.overwrite:
                checkpoint.forget_lost_result()
            publication = checkpoint.publication
            if publication is None or not (publication.report.passed or accept):
                job.plan = yield partial(_taken_up, stored, checkpoint.frames, machine)
        self._enqueue(job, command.position)

    def _enqueue(self, job: Job, position: int | None = None) -> None:
        if job.id in self._removed or any(other.id == job.id for other in self._jobs):
            raise JobError("queued-already", job=job.id)
        self._jobs.add(job)
        if position is not None:
            self._jobs.move(job, position)
        self._sink.emit(e.JobQueued(job_id=job.id, media=job.media))
        self._sink.emit(e.PlanChosen(job_id=job.id, plan=job.plan))
        self.run_next()

    def _change(self, command: c.ChangeJob) -> Steps:
        job = self._idle(command.job_id)
        if job.state is JobState.FINISHED:  # its plan tells where its result is
            raise JobError("finished", job=job.id)
        job.plan_error = None
        try:
            media, plan = yield self._planning(job, command.settings, command.output)
        except EngineError as err:
            job.plan_error = err
            raise
        if command.settings.overwrite and not job.settings.overwrite:
            Checkpoint(self._store.folder(job.id)).forget_lost_result()
        is_other = media.video_stream != job.media.video_stream
        job.media, job.plan = media, plan
        job.settings, job.output = command.settings, command.output
        other = media if is_other else None
        self._sink.emit(e.PlanChosen(job_id=job.id, plan=plan, media=other))
        if is_other:
            self._send(c.ExamineSource(job_id=job.id, media=media))
        self.run_next()  # its turn may have come while its plan was refused

    def _show_plan(self, job: Job, settings: JobSettings) -> Steps:
        """Plan a job with other settings, as a change of them would."""
        plan = None
        with suppress(EngineError):  # a change would say why
            _, plan = yield self._planning(job, settings, job.output)
        self._sink.emit(e.PlanShown(job_id=job.id, settings=settings, plan=plan))

    def _planning(
        self, job: Job, settings: JobSettings, output: Path | None
    ) -> Callable[[], tuple[MediaInfo, Plan]]:
        """Makes a plan of a job for other choices, which is not changed by it."""
        about = job.id, job.media, settings, output
        return partial(_planned, *about, self._machine_for(job.id), self._store)

    def _set_aside(self, job_id: str) -> None:
        """Take a job out of the queue, with its segments left as they are."""
        job = self._idle(job_id)
        self._jobs.remove(job)
        self._removed[job_id] = job
        self._sink.emit(e.JobRemoved(job_id=job_id))

    def _restore(self, job_id: str, position: int) -> None:
        job = self._removed.pop(job_id, None)
        if job is None:
            raise UnknownJob("none", job=job_id)
        self._jobs.add(job)
        self._jobs.move(job, position)
        self.run_next()

    def _remove(self, job_id: str) -> None:
        job = next((job for job in self._jobs if job.id == job_id), None)
        if job is None and job_id not in (*self._removed, *self._store.ids()):
            raise UnknownJob("none", job=job_id)
        if job is not None:
            self._idle(job_id)
        with self._store.held(job_id):
            pass  # refuses while another program is at it
        if job is not None:
            self._jobs.remove(job)
        self._removed.pop(job_id, None)
        self._store.remove(job_id)
        self._store.remove_excerpts(job_id)
        self._sink.emit(e.JobRemoved(job_id=job_id))

    def _retry(self, job_id: str, *, accept: bool) -> None:
        job = self._idle(job_id)
        job.take("retry")
        job.is_accepted = accept
        job.control = Control()
        self._sink.emit(e.JobQueued(job_id=job.id, media=job.media))
        self._sink.emit(e.PlanChosen(job_id=job.id, plan=job.plan))
        self.run_next()

    def _idle(self, job_id: str) -> Job:
        job = self._jobs.get(job_id)
        if job.is_active:
            raise JobError("running", job=job_id)
        return job

    # --- running

    def run_next(self) -> None:
        """Start the next job that waits, where the queue runs and nothing is in the way."""
        job = self._jobs.next_waiting(skips_refused=self._skips_refused)
        is_free = self._queue_runs and self._running is None and self._may_run()
        if job is None or not is_free or self._is_closing:
            return
        thread = threading.Thread(
            target=self._work,
            args=(job, self._machine_for(job.id)),
            name=f"job {job.id}",
            daemon=True,
        )
        thread.start()  # before the job counts as running: the system may refuse a thread
        job.take("start")
        self._running = _Running(job, thread)
        self._awake.enter_context(keep_awake())

    def _work(self, job: Job, machine: Machine) -> None:
        """Run a job in its own thread, and report how it ended."""
        event: e.JobEvent
        try:
            report = run_stored(job, self._store, machine, self._sink, self._send)
            state, event = JobState.FINISHED, e.JobFinished(job_id=job.id, report=report)
        except Cancelled:
            state, event = JobState.CANCELLED, e.JobCancelled(job_id=job.id)
        except Exception as err:  # noqa: BLE001 - logged; it becomes an event
            error = reported(err, f"job {job.id}", logger)
            state, event = JobState.FAILED, e.JobFailed(job_id=job.id, error=error.info())
        self._send(JobEnded(event=event, state=state))

    def _ended(self, command: JobEnded) -> None:
        assert self._running is not None  # each thread sends one, as the last that it does
        self._awake.close()
        self._running.thread.join()
        job, self._running = self._running.job, None
        if self._is_closing and command.state is JobState.CANCELLED:
            job.state = JobState.WAITING  # resumed at the next start
            return
        job.state = command.state  # also of a paused job, whose last look was before the pause
        if command.state is JobState.FINISHED:
            job.made = mark_of(job.plan.output)
        self._sink.emit(command.event)
        self.run_next()

    def _pause(self, job_id: str) -> None:
        job = self._jobs.get(job_id)
        job.take("pause")
        job.control.pause()
        self._awake.close()
        self._sink.emit(e.JobPaused(job_id=job.id))

    def _resume(self, job_id: str) -> None:
        job = self._jobs.get(job_id)
        job.take("resume")
        job.control.resume()
        self._awake.enter_context(keep_awake())
        self._sink.emit(e.JobResumed(job_id=job.id))

    def _cancel(self, job_id: str) -> None:
        job = self._jobs.get(job_id)
        if job.is_active:
            job.control.cancel()
        else:
            job.take("cancel")
            self._sink.emit(e.JobCancelled(job_id=job.id))

    def _shutdown(self) -> None:
        self._is_closing = True
        if self._running is not None:
            self._running.job.control.cancel()

    # --- looking

    def _take_excerpt(self, command: c.ExcerptMade) -> None:
        """Keep what was made of a job; of one that was deleted meanwhile it goes, too."""
        every = (*self._jobs, *self._removed.values())
        job = next((job for job in every if job.id == command.job_id), None)
        if job is None:
            self._store.remove_excerpts(command.job_id)
            return
        job.excerpts.append(command.excerpt)
        self._sink.emit(e.ExcerptReady(job_id=job.id, excerpt=command.excerpt))

    def _show_frame(self, command: c.ShowFrame) -> Steps:
        job = self._jobs.get(command.job_id)
        now = replace(job, excerpts=[*job.excerpts])  # it may change while the frame is read
        for event in (yield partial(_frame_events, now, command, self._store.folder(job.id))):
            self._sink.emit(event)


# --- parts that take long: they read files and make plans, and change no job


def _read_job(command: c.AddJob, machine: Machine) -> Job:
    """Probe a source and plan its job."""
    if command.is_automatic:
        check_safe(command.source)
    with being_read(command.source, "probe"):
        media = probe_source(command.source, command.settings)
    if command.is_automatic:
        check_safe(media.path)  # of a sequence the first picture
    return Job(
        id=command.job_id,
        media=media,
        settings=command.settings,
        output=command.output,
        plan=make_plan(media, command.settings, command.output, machine),
    )


def _with_result(stored: StoredJob, command: c.AdoptJob, taken: Collection[Path] = ()) -> StoredJob:
    """A job with the name of its result, and the leave to replace a file, that a command gives.

    Args:
        stored: The job.
        command: Continues it.
        taken: Results of other jobs; one that would have the name of such a one gets a number.

    Raises:
        ContainerMismatch: The name is one of another format than that of the finished parts.
    """
    plan, output = stored.plan, command.output
    if output is not None:
        named = paths.openable(output)
        named = named / plan.output.name if is_folder(named) else named
        if not has_format_of(named, plan):
            names = {"name": named.name, "result": plan.output.name}
            raise ContainerMismatch("unfinished-job", **names)
        named, pattern = pictures_target(named) if plan.container == "sequence" else (named, "")
        plan = replace(plan, output=named, pattern=pattern or plan.pattern)
    if plan.output in taken:
        plan = replace(plan, output=paths.numbered(plan.output, taken))
    overwrite = stored.settings.overwrite or command.overwrite
    settings = replace(stored.settings, overwrite=overwrite)
    return replace(stored, settings=settings, output=output or stored.output, plan=plan)


def _taken_up(stored: StoredJob, frames: int, machine: Machine) -> Plan:
    """The plan of an unfinished job with n finished frames, on the machine as it is now."""
    check_unchanged(stored)
    plan = taken_up(stored.media, stored.settings, stored.output, stored.plan, machine)
    return with_fate_of_segments(stored, stored.settings, plan, frames) if frames else plan


def _planned(
    job_id: str,
    media: MediaInfo,
    settings: JobSettings,
    output: Path | None,
    machine: Machine,
    store: JobStore,
) -> tuple[MediaInfo, Plan]:
    """A plan for other choices; what is finished of a job stays until that starts."""
    media = described(media, settings)
    checkpoint = Checkpoint(store.folder(job_id))
    if not checkpoint.frames:
        return media, make_plan(media, settings, output, machine)
    stored = store.load(job_id)
    goes_on = has_only_other_name(stored, settings)
    with_model = with_model_of(settings, stored.plan) if goes_on else settings
    plan = make_plan(media, with_model, output, machine)
    return media, with_fate_of_segments(stored, settings, plan, checkpoint.frames)


def _frame_events(job: Job, command: c.ShowFrame, folder: Path) -> tuple[e.JobEvent, ...]:
    from engine.jobs.playback import frame_events

    return tuple(frame_events(job, command, folder))
