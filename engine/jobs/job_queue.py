"""Jobs in their order."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.errors import UnknownJob
from engine.jobs.job import Job, JobState


class JobQueue:
    """The jobs of this program run, first to last; used by the engine thread only."""

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
        raise UnknownJob(f"There is no job {job_id}.", job=job_id)

    def remove(self, job: Job) -> None:
        """Take a job out."""
        self._jobs.remove(job)

    def move(self, job: Job, position: int) -> None:
        """Put a job to another place, counted from 0; beyond the ends means the end."""
        self._jobs.remove(job)
        self._jobs.insert(max(0, min(position, len(self._jobs))), job)

    @property
    def active(self) -> Job | None:
        """The job whose threads exist, if any."""
        return next((job for job in self._jobs if job.is_active), None)

    @property
    def next_waiting(self) -> Job | None:
        """The job to run next."""
        return next((job for job in self._jobs if job.state is JobState.WAITING), None)
