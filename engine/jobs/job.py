"""A job: source, settings, output and state; and which state may follow which."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from engine.core.control import Control
from engine.core.errors import EngineError, JobError
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings


class JobState(StrEnum):
    """Where a job stands."""

    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


_NEXT = {
    JobState.WAITING: {JobState.RUNNING, JobState.CANCELLED},
    JobState.RUNNING: {
        JobState.PAUSED,
        JobState.FINISHED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.WAITING,  # the program ends: resumed at the next start
    },
    JobState.PAUSED: {JobState.RUNNING, JobState.FAILED, JobState.CANCELLED, JobState.WAITING},
    JobState.FINISHED: {JobState.WAITING},  # once more, with other settings
    JobState.FAILED: {JobState.WAITING},
    JobState.CANCELLED: {JobState.WAITING},
}


@dataclass(slots=True, kw_only=True)
class Job:
    """One source on its way to a result."""

    id: str
    media: MediaInfo
    settings: JobSettings
    output: Path | None  # as the user named it; None: beside the source
    plan: Plan
    state: JobState = JobState.WAITING
    plan_error: EngineError | None = None  # the present settings cannot be planned
    control: Control = field(default_factory=Control)

    def move_to(self, state: JobState) -> None:
        """Change the state.

        Raises:
            JobError: That state cannot follow the present one.
        """
        if state not in _NEXT[self.state]:
            raise JobError(
                f"A job that is {self.state} cannot become {state}.",
                state=self.state,
                wanted=state,
            )
        self.state = state

    @property
    def is_active(self) -> bool:
        """True while its threads exist."""
        return self.state in (JobState.RUNNING, JobState.PAUSED)
