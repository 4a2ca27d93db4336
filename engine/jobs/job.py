"""A job: source, settings, output and state; which step is possible when; jobs in their order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal

from engine.core.control import Control
from engine.core.errors import EngineError, JobError, UnknownJob
from engine.protocol.excerpt import Excerpt, for_look
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings


class JobState(StrEnum):
    """State of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


Step = Literal["start", "pause", "resume", "cancel", "retry"]

_STEPS: dict[Step, tuple[set[JobState], JobState]] = {  # possible in these states; leads to this
    "start": ({JobState.WAITING}, JobState.RUNNING),
    "pause": ({JobState.RUNNING}, JobState.PAUSED),
    "resume": ({JobState.PAUSED}, JobState.RUNNING),
    "cancel": ({JobState.WAITING}, JobState.CANCELLED),  # a thread is cancelled by its control
    "retry": ({JobState.FINISHED, JobState.FAILED, JobState.CANCELLED}, JobState.WAITING),
}


@dataclass(slots=True, kw_only=True)
class Job:
    """One source on its way to a result."""

    id: str
    media: MediaInfo
    settings: JobSettings
    output: Path | None  # path named by the user; None: next to the source
    plan: Plan
    state: JobState = JobState.WAITING
    is_accepted: bool = False  # its result is taken as it is
    made: str = ""  # `content_mark` of the finished result
    plan_error: EngineError | None = None  # the present settings cannot be planned
    control: Control = field(default_factory=Control)
    excerpts: list[Excerpt] = field(default_factory=list)  # also of other settings; the newest last

    def take(self, step: Step) -> None:
        """Change the state as a command or the queue asks for; the end of a thread is no step.

        Raises:
            JobError: The step is not possible in the present state.
        """
        possible, state = _STEPS[step]
        if self.state not in possible:
            raise JobError("wrong-state", state=self.state, wanted=state)
        self.state = state

    @property
    def is_active(self) -> bool:
        """True while its threads exist."""
        return self.state in (JobState.RUNNING, JobState.PAUSED)

    @property
    def is_refused(self) -> bool:
        """True where it cannot start as it was planned last."""
        return self.plan_error is not None or not self.plan.fits

    def excerpt_at(self, seconds: float) -> Excerpt | None:
        """The newest excerpt by the present plan that shows a time of the source, s.

        Of a job that does not run, a look where there is none.
        """
        newest = [one for one in reversed(self.excerpts) if one.holds(seconds)]
        own = (one for one in newest if one.shows(self.settings, self.plan))
        look = for_look(self.settings)
        looks = (one for one in newest if one.has(look) and not self.is_active)
        return next(own, next(looks, None))


class JobQueue:
    """Jobs in the order in which they run; used by the engine thread only."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []

    def __iter__(self) -> Iterator[Job]:
        return iter(tuple(self._jobs))

    def add(self, job: Job) -> None:
        """Put a job at the end."""
        self._jobs.append(job)

    def get(self, job_id: str) -> Job:
        """The job of that name.

        Raises:
            UnknownJob: There is none.
        """
        for job in self._jobs:
            if job.id == job_id:
                return job
        raise UnknownJob("none", job=job_id)

    def remove(self, job: Job) -> None:
        """Take a job out."""
        self._jobs.remove(job)

    def move(self, job: Job, position: int) -> None:
        """Put a job to another place, counted from 0; beyond the ends means the end."""
        self._jobs.remove(job)
        self._jobs.insert(max(0, min(position, len(self._jobs))), job)

    def next_waiting(self, *, skips_refused: bool = False) -> Job | None:
        """The job to run next, which may be one that cannot start as it was planned last."""
        waiting = (job for job in self._jobs if job.state is JobState.WAITING)
        return next((job for job in waiting if not (skips_refused and job.is_refused)), None)
