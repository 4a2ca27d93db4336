"""Who takes part in a job, and who is left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.errors import ChoiceMissing
from engine.core.messages import Message
from engine.protocol.plan import WorkerPlan
from engine.workers import team
from engine.workers.team import LOADING_S, Team
from tests.helpers.clips import make_clip
from tests.helpers.jobs import plan_of, settings_of

WHY = Message("reason.worker.ended")


class Clock:
    """In place of `time`: a computer that sleeps has a clock that jumps, and one that stops."""

    def __init__(self) -> None:
        self.now, self.slept = 1000.0, 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now + self.slept


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(team, "time", found)
    return found


@pytest.fixture
def one(tmp_path: Path, clock: Clock) -> Team:
    """A team of one worker."""
    film = make_clip(tmp_path / "film.mkv", frames=2, size=(64, 48))
    plan = plan_of(film, tmp_path / "out.mkv", settings_of("lite", tmp_path))
    return Team(replace(plan, workers=(WorkerPlan(),)), None, clock.monotonic)


def test_the_third_failure_leaves_a_worker_out(one: Team) -> None:
    assert one.failed(0, WHY) is None
    assert one.failed(0, WHY) is None
    notice = one.failed(0, WHY)
    assert notice is not None
    assert notice.message == "Process 1 failed 3 times and is no longer used: its process has ended"
    assert not one.workers
    assert one.failed(0, WHY) is None


def test_a_worker_that_cannot_compute_as_the_job_does_is_left_out_at_once(one: Team) -> None:
    why = ChoiceMissing(work="x", fault="y").as_message
    notice = one.failed(0, why)
    assert notice is not None
    assert notice.params == {"worker": "1", "count": "1", "why": why}
    assert not one.workers


def test_what_is_lost_while_this_computer_wakes_is_no_failure(one: Team, clock: Clock) -> None:
    one.look({0}, has_workers=True)
    clock.slept += 3600.0
    one.look({0}, has_workers=True)
    for _ in range(5):
        assert one.failed(0, WHY) is None
    for _ in range(8):
        clock.now += 11.0
        one.look({0}, has_workers=True)
    assert one.failed(0, WHY) is None
    clock.now += 3.0
    assert [one.failed(0, WHY) is None for _ in range(3)] == [True, True, False]


def test_a_short_pause_is_no_sleep(one: Team, clock: Clock) -> None:
    one.look({0}, has_workers=True)
    clock.now += 19.0
    one.look({0}, has_workers=True)
    assert [one.failed(0, WHY) is None for _ in range(3)] == [True, True, False]


def test_one_that_left_fails_no_more_until_it_joins_again(one: Team) -> None:
    one.left(0)
    assert [one.failed(0, WHY) for _ in range(3)] == [None] * 3
    assert not one.joined(0)
    assert [one.failed(0, WHY) is None for _ in range(3)] == [True, True, False]
    assert one.joined(7)


def test_without_any_worker_for_a_time_nobody_is_left(one: Team, clock: Clock) -> None:
    one.look({0}, has_workers=True)
    clock.now += 9.0
    one.look((), has_workers=False)
    assert one.workers
    clock.now += 2.0
    one.look((), has_workers=False)
    assert not one.workers
    assert not one.may_grow


def test_a_worker_whose_process_does_not_start_is_left_out(one: Team, clock: Clock) -> None:
    clock.now += LOADING_S
    assert not one.look((), has_workers=True)
    assert not one.look({0}, has_workers=True)
    clock.now += LOADING_S
    assert not one.look((), has_workers=True)
    clock.now += 1.0
    (notice,) = one.look((), has_workers=True).values()
    assert notice.message == "Process 1 failed 1 time and is no longer used: it did not start"
    assert not one.workers
    assert not one.look((), has_workers=True)


def test_a_worker_loads_its_models_again_after_a_failure_and_a_pause(one: Team) -> None:
    for happens in (lambda: one.failed(0, WHY), lambda: one.loads(0), lambda: one.joined(0)):
        one.made(0, 4)
        assert not one.may_load(0)
        happens()
        assert one.may_load(0)
