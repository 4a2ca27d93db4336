import pytest

from engine.core.errors import JobError, UnknownJob
from engine.jobs.job import Job, JobQueue, JobState
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_media, a_plan


def a_job(name: str = "a") -> Job:
    return Job(id=name, media=a_media(), settings=JobSettings(), output=None, plan=a_plan())


def test_a_job_runs_pauses_and_finishes_and_other_changes_are_refused():
    for path, wrong in (
        ([], JobState.PAUSED),
        ([], JobState.FINISHED),
        (
            [JobState.RUNNING, JobState.PAUSED, JobState.RUNNING, JobState.FINISHED],
            JobState.RUNNING,
        ),
        ([JobState.CANCELLED], JobState.PAUSED),
    ):
        job = a_job()
        for state in path:
            job.move_to(state)
        with pytest.raises(JobError):
            job.move_to(wrong)
    assert not job.is_active


def test_the_queue_keeps_its_order_and_finds_what_is_next():
    queue = JobQueue()
    assert queue.next_waiting is None
    jobs = [a_job(name) for name in "abc"]
    for job in jobs:
        queue.add(job)
    queue.move(jobs[2], 0)
    assert [job.id for job in queue] == ["c", "a", "b"]
    jobs[2].move_to(JobState.RUNNING)
    assert queue.active is jobs[2]
    assert queue.next_waiting is jobs[0]
    queue.move(jobs[2], 99)
    assert [job.id for job in queue] == ["a", "b", "c"]
    queue.remove(jobs[0])
    with pytest.raises(UnknownJob):
        queue.get("a")
