"""A job that waits for room on its disk, as the user sees it."""

from app import labels
from engine.core.errors import DiskFull
from engine.protocol import commands, events
from engine.protocol.plan import Notice
from tests.app.conftest import Bench, texts


def start_and_fill(bench: Bench) -> str:
    """Let a job begin, and pause because its disk is full; the name of the job."""
    job_id = bench.start()
    bench.advance(60)
    problem = DiskFull("low", folder="/jobs", free=10**6, size=10**9).as_message
    notice = Notice(code="waits-for-room", severity="warning", params={"problem": problem})
    bench.emit(events.Warned(job_id=job_id, notice=notice))
    bench.do("pause")
    return job_id


def test_a_job_that_waits_for_room_says_so_and_can_go_on(bench):
    job_id = start_and_fill(bench)
    seen = texts(bench.window)
    assert "/jobs" in seen, seen
    row = bench.program.queue.find(job_id)
    assert labels.state(row) == bench.find("planHead").text() == "Waits for disk space"
    assert not bench.find("plan-disk").isVisible(), "that was before the start"
    assert bench.find("pauseAction").text() == "Resume"
    bench.press("pauseAction")
    assert bench.asked(commands.ResumeJob) == [commands.ResumeJob(job_id=job_id)]
    bench.hear()
    assert "/jobs" not in texts(bench.window), "it has gone on"
    assert bench.find("planHead").text() == "Fits into memory"


def test_a_job_that_was_cancelled_meanwhile_does_not_wait_any_more(bench):
    start_and_fill(bench)
    bench.do("cancel")
    assert "/jobs" not in texts(bench.window)
