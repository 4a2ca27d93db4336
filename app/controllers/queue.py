"""Requests of the user become commands; answers of the engine are left to the models."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.bridge.engine_bridge import EventHub
from app.engine_messages import text
from app.jobs.found_files import FileFinder, FoundFiles, is_latent, is_model_file, is_wheel
from app.state.job_row import JobRow, JobState
from app.state.queue_model import QueueModel
from app.state.removals import Removal, Removals
from engine.core.errors import EngineError
from engine.protocol import commands, events
from engine.settings.schema import (
    JobSettings,
    changes_for_others,
    for_next_films,
    with_latents_of,
    with_values,
)

if TYPE_CHECKING:
    from engine.api import Engine, UnfinishedJob

_log = logging.getLogger(__name__)
_THUMBNAIL_PX = 256


class QueueController(QObject):
    """Turns intents into commands; keeps queue model and engine in step."""

    files_added = Signal()
    looked_through = Signal(object)  # FoundFiles: what was added and what was not
    latents_found = Signal(list)  # list[Path]: the user has to choose how they are read
    wheels_found = Signal(list)  # list[Path]: no videos, but files of an NVIDIA runtime
    models_found = Signal(list)  # paths of model files
    command_failed = Signal(str)  # why, in the current language
    queue_stops = Signal(bool)  # whether the running video is the last one
    queue_ended = Signal()  # nothing is left to run; not where the user has stopped the queue

    def __init__(
        self,
        hub: EventHub,
        queue: QueueModel,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._engine: Engine | None = None
        self._early: list[commands.Command] = []
        self._queue = queue
        self._start_when_queued: set[str] = set()
        self._queue_runs = False
        self.is_stopped = False  # by the user, until Start
        self.settings = JobSettings()  # for the next files
        self.removals = Removals(self)
        self._finder = FileFinder(self)
        self._finder.found.connect(self._add_found)
        hub.subscribe(events.JobQueued, self._after_queued)
        hub.subscribe(events.PreviewReady, self._keep_thumbnail)
        for ended in (
            events.JobFinished,
            events.JobFailed,
            events.JobCancelled,
            events.JobRejected,
            events.PlanChosen,
            events.PlanFailed,
        ):
            hub.subscribe(ended, self._stop_if_empty)

    def attach(self, engine: Engine) -> None:
        """The engine is there: it gets what was asked so far."""
        self._engine = engine
        early, self._early = self._early, []
        for command in early:
            self.send(command)

    def send(self, command: commands.Command) -> None:
        """Hand a command to the engine, or keep it until there is one."""
        if self._engine is None:
            self._early.append(command)
            return
        try:
            self._engine.send(command)
        except EngineError as err:
            _log.warning("%s was not taken: %s", type(command).__name__, err.message)
            self.command_failed.emit(text(err.info()))

    # Adding

    def add_paths(self, paths: Sequence[Path]) -> None:
        """Add files, and the videos of folders; folders are looked through in another thread."""
        rows = self._queue.rows
        ahead = [row.source for row in rows if row.state.can_change or row.state.is_active]
        self._finder.look_through(paths, ahead)

    def _add_found(self, found: FoundFiles) -> None:
        self.add_files(found.files)
        self.looked_through.emit(found)

    def add_files(self, files: Sequence[Path]) -> None:
        """Put videos into the queue; what is none is handed on to who takes such files."""
        signals = self.latents_found, self.wheels_found, self.models_found
        others = tuple(zip((is_latent, is_wheel, is_model_file), signals, strict=True))
        films = [file for file in files if not any(is_it(file) for is_it, _ in others)]
        with self._queue.together():
            for file in films:
                self.add_file(file)
        if films:
            self.files_added.emit()
        for is_it, found in others:
            if those := [file for file in files if is_it(file)]:
                found.emit(those)

    def add_file(
        self,
        file: Path,
        *,
        settings: JobSettings | None = None,
        output: Path | None = None,
        starts_at_once: bool = False,
        is_automatic: bool = False,
    ) -> str:
        """Put one file into the queue and return the name of its job.

        Args:
            file: The source.
            settings: Choices for this file alone; None for those of the next files.
            output: The result; None for a file next to the source.
            starts_at_once: Whether it runs as soon as it was read.
            is_automatic: Whether the program adds it by itself, at its start.
        """
        job_id, settings = uuid.uuid4().hex[:12], settings or self.settings
        if starts_at_once:
            self._start_when_queued.add(job_id)
        self._queue.add(job_id, file, settings, output)
        self.send(
            commands.AddJob(
                job_id=job_id,
                source=file,
                settings=settings,
                output=output,
                is_automatic=is_automatic,
            )
        )
        return job_id

    def continue_left_over(
        self,
        jobs: Sequence[UnfinishedJob],
        *,
        instead_of: Sequence[str] = (),
        starts_at_once: bool = True,
    ) -> None:
        """Put jobs of an earlier run before those that wait: they were begun before them.

        Args:
            jobs: Jobs that the earlier run has left.
            instead_of: Waiting jobs that they replace.
            starts_at_once: Whether they go on as soon as they were read.
        """
        with self._queue.together():
            for job_id in instead_of:  # first: they may have planned for the same result
                self._start_when_queued.discard(job_id)
                self._queue.forget(job_id)
            self._delete(instead_of)
            for place, job in enumerate(jobs):
                if starts_at_once:
                    self._start_when_queued.add(job.job_id)
                self._adopt(_row_of(job), place)
        self.files_added.emit()

    def _adopt(self, row: JobRow, place: int) -> None:
        self._queue.insert(row, place)
        position = self._engine_position(row.job_id)
        self.send(commands.AdoptJob(job_id=row.job_id, position=position))

    def discard_left_over(self, jobs: Sequence[UnfinishedJob], offer: Callable[[], None]) -> None:
        """Leave jobs of an earlier run; `removals` can `offer` them again, or delete them."""
        job_ids = [job.job_id for job in jobs]
        rows = tuple(map(_row_of, jobs))
        removal = Removal(rows=rows, restore=offer, drop=lambda: self._delete(job_ids))
        self.removals.add(removal)

    # Changing

    def choose(
        self,
        job_id: str,
        settings: JobSettings,
        output: Path | None,
        others: Sequence[str] = (),
    ) -> None:
        """Other choices for a job, and for the next files; without a job only for those.

        Args:
            job_id: Name of the job; "" for none.
            settings: Its choices.
            output: Its result; None for a file next to the source.
            others: Jobs that get what has changed, and keep their other choices and their name.
        """
        self.settings = for_next_films(settings)
        row = self._queue.find(job_id)
        if row is None or not row.state.can_change:
            return
        changes = changes_for_others(row.settings, settings)
        with self._queue.together():
            self._plan_with(row, settings, output)
            for other in self._queue.rows:
                can_change = other is not row and other.state.can_change
                if other.job_id in others and can_change and changes:
                    requested = with_values(other.settings, changes)
                    self._plan_with(other, requested, other.output)

    def _plan_with(self, row: JobRow, settings: JobSettings, output: Path | None) -> None:
        self._queue.choose(row.job_id, settings, output)
        self._change_to(row.job_id, settings, output)

    def _change_to(self, job_id: str, settings: JobSettings, output: Path | None) -> None:
        self.send(commands.ChangeJob(job_id=job_id, settings=settings, output=output))

    def move(self, job_id: str, step: int) -> None:
        """Move a job up (-1) or down (1)."""
        at = self._queue.position(job_id)
        if at >= 0:
            self._move_to(job_id, at + step)

    def reorder(self, job_ids: Sequence[str], before: int) -> None:
        """Put jobs together in front of the one at a place; the end is the number of jobs."""
        with self._queue.together():
            for job_id in job_ids:
                is_above = self._queue.position(job_id) < before
                self._move_to(job_id, before - 1 if is_above else before)
                before += not is_above

    def _move_to(self, job_id: str, to: int) -> None:
        if not self._queue.move(job_id, to):
            return
        position = self._engine_position(job_id)
        if position >= 0:
            self.send(commands.MoveJob(job_id=job_id, position=position))

    def remove(self, job_ids: Sequence[str]) -> None:
        """Take jobs that do not run out of the queue; `removals` can put them back."""
        rows = [row for row in self._queue.rows if row.job_id in job_ids]
        places = [
            (self._queue.position(row.job_id), row) for row in rows if not row.state.is_active
        ]
        if not places:
            return
        with self._queue.together():
            for _, row in places:
                self._start_when_queued.discard(row.job_id)
                if row.state is not JobState.REJECTED:
                    self.send(commands.RemoveJob(job_id=row.job_id, can_return=True))
                self._queue.forget(row.job_id)
        removed = [row for _, row in places if row.state is not JobState.REJECTED]
        self.removals.add(
            Removal(
                rows=tuple(row for _, row in places),
                restore=lambda: self._put_back(places),
                drop=lambda: self._delete([row.job_id for row in removed]),
            )
        )

    def clear_finished(self) -> None:
        """Take all videos out of the queue whose result is there and without doubt."""
        self.remove([row.job_id for row in self._queue.rows if row.can_clear])

    def _put_back(self, places: Sequence[tuple[int, JobRow]]) -> None:
        with self._queue.together():
            for at, row in places:
                if self._queue.find(row.job_id) is not None:
                    continue  # it ran and is back
                self._queue.insert(row, at)
                if row.state is not JobState.REJECTED:
                    position = self._engine_position(row.job_id)
                    self.send(commands.RestoreJob(job_id=row.job_id, position=position))

    def _delete(self, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            if self._queue.find(job_id) is None:
                self.send(commands.RemoveJob(job_id=job_id))

    def _engine_position(self, job_id: str) -> int:
        """Place of a job in the engine, which does not know those that it refused; -1 for none."""
        known = [row for row in self._queue.rows if row.state is not JobState.REJECTED]
        return next((i for i, row in enumerate(known) if row.job_id == job_id), -1)

    def retry(self, job_id: str, *, accept: bool = False) -> None:
        """Let a failed, cancelled or refused job run again; one whose result differs, too.

        Args:
            job_id: Name of the job.
            accept: Its result is kept as it is, though frames are missing or a check failed.
        """
        row = self._queue.find(job_id)
        if row is None:
            return
        if row.awaits_adoption:
            place = self._queue.position(job_id)
            with self._queue.together():
                self._queue.forget(job_id)
                self._adopt(replace(row, state=JobState.READING, error=None), place)
        elif row.state is JobState.REJECTED:
            self._queue.forget(job_id)
            settings = with_latents_of(row.settings, self.settings)
            self.add_file(row.source, settings=settings, output=row.output)
        elif row.can_retry and not row.asked:
            if accept:
                self._queue.accept(job_id)
            self._let_wait(row, accept=accept)
            self.start()

    def reopen(self, job_id: str) -> None:
        """Let a job wait again so that its choices can be changed; it does not start by itself."""
        row = self._queue.find(job_id)
        if row is None or row.asked:
            return
        if self._queue.active is None:
            self.stop()
        self._let_wait(row)

    def _let_wait(self, row: JobRow, *, accept: bool = False) -> None:
        if row.plan is not None and not row.plan.fits:  # the reason may be gone
            self._change_to(row.job_id, row.settings, row.output)
        self._ask(row.job_id, "retry", commands.RetryJob(job_id=row.job_id, accept=accept))

    def _ask(self, job_id: str, what: str, command: commands.Command) -> None:
        self._queue.ask(job_id, what)
        self.send(command)

    def plan_again(self, code: str, is_ready: Callable[[JobSettings], bool]) -> None:
        """Ask for new plans where one was refused with `code` and that reason is gone."""
        for row in self._queue.rows:
            if code not in row.refusals or not is_ready(row.settings):
                continue
            if row.state is JobState.REJECTED:
                self.retry(row.job_id)
            elif row.state.can_change:
                self._change_to(row.job_id, row.settings, row.output)

    def plan_refused_again(self) -> None:
        """Ask for new plans of the videos that cannot start: the reasons may be gone."""
        for row in self._queue.rows:
            if row.is_refused and not row.is_downloading:
                self._change_to(row.job_id, row.settings, row.output)

    def plan_all_again(self) -> None:
        """Ask for new plans of the videos that wait: the machine is known better now."""
        for row in self._queue.rows:
            if row.state is JobState.WAITING:
                self._change_to(row.job_id, row.settings, row.output)

    # Running

    def start(self) -> None:
        """Run the waiting jobs, with new plans of those that were refused."""
        self.is_stopped = False
        self.plan_refused_again()
        self._run_queue(True)

    def start_alone(self, job_id: str) -> None:
        """Run one waiting job; the others wait for Start, also those that were before it."""
        waiting = (row.job_id for row in self._queue.rows if row.state is JobState.WAITING)
        self._move_to(job_id, self._queue.position(next(waiting, job_id)))
        self._run_queue(True)
        self._run_queue(False)

    def stop(self) -> None:
        """Let the running job end, and start no other."""
        self.is_stopped = True
        self._run_queue(False)

    def pause_or_resume(self) -> None:
        """Halt the running job, or let the paused one go on."""
        row = self._queue.active
        if row is None or row.asked:
            return
        if row.state is JobState.PAUSED:
            self._ask(row.job_id, "resume", commands.ResumeJob(job_id=row.job_id))
        else:
            self._ask(row.job_id, "pause", commands.PauseJob(job_id=row.job_id))

    def cancel(self) -> None:
        """Stop the running job; the next one waits for Start: nothing runs after Cancel."""
        row = self._queue.active
        if row is not None and row.asked != "cancel":
            self._queue.ask(row.job_id, "cancel")
            self.stop()
            self.send(commands.CancelJob(job_id=row.job_id))

    @property
    def goes_on(self) -> bool:
        """True while videos that wait will start by themselves."""
        return self._queue_runs and self._queue.can_start

    def _run_queue(self, runs: bool) -> None:
        self._queue_runs = runs
        start = commands.StartQueue(skips_refused=True)
        self.send(start if runs else commands.StopQueue())
        self.queue_stops.emit(not runs)

    def show_frame(self, job_id: str, seconds: float, has_source: bool) -> None:
        """Ask for the picture at a time, of the result alone or of the source too."""
        row = self._queue.find(job_id)
        if row is not None and row.media is not None:
            self.send(commands.ShowFrame(job_id=job_id, seconds=seconds, has_source=has_source))

    # Answers

    def _after_queued(self, event: events.JobQueued) -> None:
        row = self._queue.find(event.job_id)
        if row is None:
            return
        if row.thumbnail is None:
            self._ask_thumbnail(row)
        if event.job_id in self._start_when_queued:
            self._start_when_queued.discard(event.job_id)
            self.start()

    def _ask_thumbnail(self, row: JobRow) -> None:
        video = row.media.video if row.media is not None else None
        seconds = float(video.duration or 0) / 4 if video is not None else 0.0
        self.send(
            commands.ShowFrame(job_id=row.job_id, seconds=seconds, longest_side=_THUMBNAIL_PX)
        )

    def _keep_thumbnail(self, event: events.PreviewReady) -> None:
        if event.source is not None:
            self._queue.set_thumbnail(event.job_id, event.source)

    def _stop_if_empty(self, event: events.JobEvent) -> None:
        """A queue in which nothing can start stops: what is added later waits for Start."""
        is_empty = not (self._queue.startable or self._queue.count(JobState.READING))
        is_empty &= not any(row.asked for row in self._queue.rows)
        has_run = isinstance(event, events.JobFinished | events.JobFailed) and not self.is_stopped
        if (self._queue_runs or has_run) and is_empty and self._queue.active is None:
            self._run_queue(False)
            if not isinstance(event, events.PlanChosen | events.PlanFailed):
                self.queue_ended.emit()


def _row_of(job: UnfinishedJob) -> JobRow:
    return JobRow(
        job_id=job.job_id,
        source=job.source,
        settings=job.settings or JobSettings(),
        output=job.chosen_output,
        is_left_over=True,
    )
