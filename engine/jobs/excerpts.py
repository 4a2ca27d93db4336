"""Excerpts: a part of a video by the plan of its job, made by the machinery of jobs."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from engine.core.errors import JobError
from engine.core.file_access import writing
from engine.core.geometry import FrameSpan
from engine.hardware.process import keep_awake
from engine.jobs.checkpoint import Checkpoint
from engine.jobs.gpu_process import run_in
from engine.jobs.job import Job
from engine.jobs.job_service import JobService
from engine.jobs.job_store import JobStore
from engine.jobs.run_here import prepared
from engine.jobs.task_runner import RunningTask, Task
from engine.pipeline.prepare import (
    Machine,
    check_plan,
    decoded,
    examined_source,
    make_plan,
    with_model_of,
)
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.excerpt import Excerpt, for_look
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.protocol.tasks import TaskKind
from engine.settings.schema import JobSettings

_FINDINGS_S, _POLL_S = 2.0, 0.02  # a look waits for the examination of its video, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """An excerpt: a part of a source with some settings."""

    media: MediaInfo
    settings: JobSettings  # settings that the user sees
    planned: JobSettings  # settings with the model that "auto" is in the job's plan
    start: float  # s
    seconds: float  # 0 for a frame


class ExcerptService:
    """Makes parts of videos while no job runs, one after the other.

    Args:
        jobs: Whose videos are tried.
        send: Takes what was made to the jobs.
        is_measured: Whether the machine is measured; both times would be wrong.
    """

    kind = TaskKind.EXCERPT
    commands = c.ExcerptCommand

    def __init__(
        self, jobs: JobService, send: Callable[[c.Command], None], is_measured: Callable[[], bool]
    ) -> None:
        self._jobs, self._send, self._is_measured = jobs, send, is_measured
        self._tried: set[str] = set()  # jobs

    def answer(self, command: c.ExcerptCommand) -> Task:
        """A task that emits ScenesFound, or sends ExcerptMade.

        Raises:
            UnknownJob: There is no such job.
            JobError: A job runs, the machine is measured, or the source is a file of latents.
        """
        job = self._jobs.job(command.job_id)
        if self._jobs.is_running:
            raise JobError("excerpt-waits")
        if self._is_measured():
            raise JobError("excerpt-waits-for-measurement")
        if job.media.holds_latents:
            raise JobError("excerpt-of-latents")
        if isinstance(command, c.MakeExcerpt):
            return self._excerpt_of(job, command)
        return Task(kind=self.kind, subject=job.id, do=partial(_look, job.id, job.media))

    def _excerpt_of(self, job: Job, command: c.MakeExcerpt) -> Task:
        own = with_model_of(job.settings, job.plan)
        wanted = _Wanted(
            media=job.media,
            settings=command.settings or job.settings,
            planned=command.settings or own,
            start=command.start,
            seconds=command.seconds,
        )
        self._tried.add(job.id)
        do = partial(self._make, job.id, wanted, self._jobs.machine)
        return Task(kind=self.kind, subject=job.id, do=do)

    def tidy(self) -> None:
        """Delete what a program that was killed has left."""
        for folder in JobStore(self._jobs.machine.jobs_folder).old_excerpts():
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Delete what was made; called when no task runs any more."""
        store = JobStore(self._jobs.machine.jobs_folder)
        for job_id in self._tried:
            store.remove_excerpts(job_id)

    def _make(self, job_id: str, wanted: _Wanted, machine: Machine, work: RunningTask) -> None:
        folder = JobStore(machine.jobs_folder).excerpts(job_id) / uuid.uuid4().hex[:8]
        with writing(folder):
            folder.mkdir(parents=True)
        try:
            with keep_awake():
                excerpt = made(job_id, wanted, machine, folder, work)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._send(c.ExcerptMade(job_id=job_id, excerpt=excerpt))


class LookService:
    """Makes a frame of the video that is looked at, by Lite, while nothing else computes.

    Args:
        excerpts: Makes it, as it makes what the user asks for.
        jobs: Whose videos are looked at.
        examines: Whether sources are being examined.
    """

    kind = TaskKind.LOOK
    commands = c.MakeLook

    def __init__(
        self, excerpts: ExcerptService, jobs: JobService, examines: Callable[[], bool]
    ) -> None:
        self._excerpts, self._jobs, self._examines = excerpts, jobs, examines

    def answer(self, command: c.MakeLook) -> Task:
        """A task that sends ExcerptMade; a later one replaces one that waits.

        Raises:
            UnknownJob, JobError: Raised by `ExcerptService.answer`.
        """
        job = self._jobs.job(command.job_id)
        settings = for_look(job.settings)
        asked = c.MakeExcerpt(job_id=job.id, start=command.start, settings=settings)
        self._excerpts.answer(asked)  # refuses what cannot be made now

        def do(work: RunningTask) -> None:
            self._await_findings(job, work)
            self._excerpts.answer(asked).do(work)

        return Task(kind=self.kind, subject=job.id, do=do, turn="replaces")

    def _await_findings(self, job: Job, work: RunningTask) -> None:
        """Wait a moment for the examination that every video gets, so that it is not made twice."""
        until = time.monotonic() + _FINDINGS_S
        while job.media.findings is None and self._examines() and time.monotonic() < until:
            work.control.check()
            time.sleep(_POLL_S)


def _look(job_id: str, media: MediaInfo, work: RunningTask) -> None:
    from engine.video.read.scenes import telling_scenes

    work.emit(e.ScenesFound(job_id=job_id, scenes=telling_scenes(media)))


def made(
    job_id: str, wanted: _Wanted, machine: Machine, folder: Path, work: RunningTask
) -> Excerpt:
    """Make a part of a video into a folder.

    The plan is that of the whole video: a plan for a few frames could have other clips and tiles.

    Raises:
        EngineError: It cannot be made.
        Cancelled: The user stopped it.

    Memory: as of the job.
    """
    work.step(0, 0, None)
    media = examined_source(wanted.media)
    plan = make_plan(media, wanted.planned, folder, machine)
    check_plan(media, plan, overwrite=True)
    plan = _of_part(media, plan, wanted)
    prepared()
    from engine.pipeline.context import JobContext

    events = _Progress(work)
    context = JobContext(
        job_id=job_id,
        media=replace(media, streams=()),  # verification would read those of the whole film
        plan=plan,
        control=work.control,
        events=events,
        pictures=False,
        is_learned_from=False,
        is_excerpt=True,
        accepts_damage=True,
    )
    pieces = folder / "pieces"
    pieces.mkdir()
    report = run_in(pieces, context, Checkpoint(pieces), overwrite=True)
    shutil.rmtree(pieces, ignore_errors=True)
    largest = report.largest_on_gpu
    return Excerpt(
        settings=wanted.settings,
        plan=context.plan,
        frames=report.frames_out,
        frames_per_second=events.frames_per_second,
        device_bytes=0 if largest is None else largest.peak.requested,
    )


def _of_part(media: MediaInfo, plan: Plan, wanted: _Wanted) -> Plan:
    """The plan of a video, for a part of it, without its other streams and in this process."""
    plan = replace(plan, streams=(), workers=(), takes_machines=False)
    film = decoded(media, plan, plan.output.parent)
    if media.kind == "image" or film is None:
        return plan
    first, stop = _times(film, wanted.start, wanted.seconds)
    frames = max(1, round(wanted.seconds * plan.picture.frame_rate))
    return replace(plan, start=first, stop=stop, span=FrameSpan(0, frames))


def _times(film: MediaInfo, start: float, seconds: float) -> tuple[Fraction, Fraction]:
    """Range from the frame shown at a time, to the end or the next one; clock of the source.

    A video may begin later than its sound: until then its first frame is shown.
    """
    from engine.video.read.frame_reader import FrameReader, frame_at

    base = film.video.time_base
    shown = frame_at(film, start).pts
    first = shown * base - film.start
    begin = first if first <= start else Fraction(0)
    if seconds:
        return begin, first + Fraction(seconds).limit_denominator(1000)
    with FrameReader(film) as reader:
        following = (frame.pts for frame in reader.seen_from(shown) if frame.pts > shown)
        length = base * (next(following, shown) - shown)
    return begin, first + (length or 1 / (film.video.frame_rate or Fraction(25)))


class _Progress:
    """Takes the events of an excerpt's job; passes the frames that are done on to its task."""

    def __init__(self, work: RunningTask) -> None:
        self._work = work
        self.frames_per_second = 0.0

    def emit(self, event: e.Event) -> None:
        """Take one event."""
        if isinstance(event, e.StageProgress) and event.stage == "upscale":
            self.frames_per_second = event.frames_per_second
            self._work.step(event.done, event.total, None)
