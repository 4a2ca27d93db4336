"""Each worker of the running job with its speed, below the figures."""

import pytest

from app.preview.figures import Figure, WorkersRow
from engine.protocol import events
from tests.app.conftest import Bench, part


def say(bench: Bench, job_id: str, *speeds: tuple[str, float]) -> None:
    for number, (name, speed) in enumerate(speeds, start=1):
        bench.emit(
            events.WorkerProgress(
                job_id=job_id, worker=number, frame=7 * number, frames_per_second=speed, name=name
            )
        )


def shown(bench: Bench) -> list[str]:
    row = part(bench.window, "workersRow", WorkersRow)
    figures = [one for one in row.findChildren(Figure) if one.isVisible()]
    return [one.accessibleName() for one in figures]


@pytest.fixture
def running(bench: Bench) -> str:
    """A job that has made its first frames."""
    job_id = bench.start()
    bench.emit(events.StageProgress(job_id=job_id, stage="upscale", done=1, total=240))
    return job_id


def test_a_job_without_workers_makes_none(bench, running):
    assert part(bench.window, "workersRow", WorkersRow).findChildren(Figure) == []


def test_processes_and_other_computers_are_shown_with_their_speed(bench, running):
    say(bench, running, ("", 0.42), ("Studio", 12.04), ("", 0.0))
    assert shown(bench) == [
        "Process 1: 0.42 fps",
        "Studio: 12.0 fps",
        "Process 3: –",
    ]
    tips = [one.toolTip() for one in bench.window.findChildren(Figure) if one.isVisible()]
    assert "Studio, at frame 14" in tips
    bench.use_language("zh_CN")
    assert shown(bench)[0] == "进程 1: 0.42 帧/秒"


def test_those_without_room_are_added_up(bench, running):
    say(bench, running, *[("", 0.5)] * 20)
    found = shown(bench)
    assert 2 <= len(found) <= 8
    rest = 20 - (len(found) - 1)
    assert found[-1] == f"{rest} more: {0.5 * rest:.2f} fps"


def test_a_low_window_keeps_its_height_for_the_picture(bench, running):
    bench.window.resize(1024, 560)
    bench.hear()
    say(bench, running, ("", 0.42))
    assert shown(bench) == []
    bench.window.resize(1440, 900)
    bench.hear()
    assert len(shown(bench)) == 1


def test_workers_of_another_job_and_of_one_that_has_ended_are_not_shown(bench, running):
    say(bench, "another", ("", 0.42))
    assert shown(bench) == []
    say(bench, running, ("", 0.42))
    assert len(shown(bench)) == 1
    bench.finish()
    assert shown(bench) == []
