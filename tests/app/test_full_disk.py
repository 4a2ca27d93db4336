"""A job that waits for room on its disk, as the user sees it."""

from engine.core.errors import DiskFull
from engine.protocol import commands, events
from engine.protocol.plan import Notice
from tests.app.conftest import texts


def test_a_job_that_waits_for_room_says_so_and_can_go_on(bench):
    job_id = bench.start()
    problem = DiskFull("low", folder="/jobs", free=10**6, size=10**9).as_message
    notice = Notice(code="waits-for-room", severity="warning", params={"problem": problem})
    bench.emit(events.Warned(job_id=job_id, notice=notice))
    bench.do("pause")
    seen = texts(bench.window)
    assert "/jobs" in seen, seen
    assert bench.find("pauseAction").text() == "Resume"
    bench.press("pauseAction")
    assert bench.asked(commands.ResumeJob) == [commands.ResumeJob(job_id=job_id)]
    bench.hear()
    assert "/jobs" not in texts(bench.window), "it has gone on"
