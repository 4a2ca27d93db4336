"""Spans that are late: by the pace of their worker, else of the others, else by the plan."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.segments import SegmentRecord, Span
from engine.protocol.events import Warned
from engine.protocol.media import FrameMark
from engine.workers.hand_out import _HandOut
from engine.workers.spans import OpenSpans
from engine.workers.team import LOADING_S, Deadlines, Held, Team
from tests.engine.workers.test_hand_out import job_of, planned
from tests.helpers.jobs import Events

PLAN: Any = SimpleNamespace(seconds=50.0, seconds_high=100.0, workers=(1, 2), frames=200)


class Future:
    """Stands for one of Dask."""

    status = "pending"


A: Any
B: Any


@pytest.fixture(autouse=True)
def futures() -> None:
    global A, B
    A, B = Future(), Future()


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def team(clock: Clock, *seen: tuple[int, float]) -> Team:
    """Three workers, of which some have made frames: number, s for a frame."""
    found = Team(cast(Any, SimpleNamespace(workers=range(3))), None, clock)
    for number, seconds in seen:
        clock.now = 0.0
        found.works(number, 0)
        clock.now = 10 * seconds
        found.made(number, 10)
    clock.now = 0.0
    return found


@pytest.mark.parametrize(
    ("seen", "patience"),
    [
        ((), 5 + 2 * 10 * 1.0),  # 100 s of two workers for 200 frames
        (((0, 3.0),), 5 + 2 * 10 * 3.0),  # its own pace counts most
        (((1, 0.5), (2, 4.0)), 5 + 2 * 10 * 4.0),  # else that of the slowest
        (((0, 0.1), (1, 9.0)), 5 + 2 * 10 * 0.1),
    ],
)
def test_a_span_is_late_by_the_pace_that_is_known_best(
    seen: tuple[tuple[int, float], ...], patience: float, clock: Clock
) -> None:
    deadlines = Deadlines(PLAN, team(clock, *seen), clock)
    held = {A: Held(0, 10)}
    for _ in range(int(patience)):
        assert not deadlines.late(held)
        clock.now += 1
    clock.now = patience + 0.5
    assert deadlines.late(held) == {A: pytest.approx(0.5)}
    assert not deadlines.late({A: Held(0, 8)}), "a segment is finished"
    assert not deadlines.late({}), "it has ended"
    assert not deadlines.late(held), "it has begun again"


def test_a_computer_that_slept_finds_nobody_late(clock: Clock) -> None:
    deadlines = Deadlines(PLAN, team(clock), clock)
    assert not deadlines.late({A: Held(0, 1)})
    clock.now = 3600.0
    assert not deadlines.late({A: Held(0, 1)})
    assert not deadlines.is_silent(may_load=False)
    clock.now += 2 * (5 + 2) + 1
    assert deadlines.late({A: Held(0, 1)})
    assert deadlines.is_silent(may_load=False)
    assert not deadlines.is_silent(may_load=True)
    deadlines.begun()
    assert not deadlines.is_silent(may_load=False)
    clock.now += LOADING_S + 2 * (5 + 2) + 1
    assert deadlines.is_silent(may_load=True)


def record(number: int) -> SegmentRecord:
    times = tuple(range(4 * number, 4 * number + 4))
    crcs = (0,) * 4
    return SegmentRecord(
        number=number, pts=times, durations=crcs, bytes=1, crcs=crcs, begins=4 * number
    )


def test_a_shared_span_ends_with_the_first_result() -> None:
    spans = OpenSpans((), cast(Any, SimpleNamespace(frames=100)), 4)
    span = Span(first=1, marks=(FrameMark(count=4, pts=3, crc=0),), stop=16)
    spans.begin([A], [span])
    spans.add(record(1))
    rest = spans.rest_of(A)
    assert (rest.first, spans.frames_of(rest)) == (2, 8)
    assert not spans.is_elsewhere(rest, {A})
    spans.share(A, B)
    assert spans.is_elsewhere(rest, {A})
    assert spans.is_elsewhere(rest, {B})
    assert not spans.is_elsewhere(rest, {A, B})
    spans.add(record(2))
    assert spans.is_elsewhere(spans.rest_of(A), {A}), "whoever has made it"
    assert spans.outrun() == []
    spans.add(record(3))
    B.status = "finished"
    assert spans.outrun() == [A], "the other one ends by itself"
    assert list(spans) == [B]


def test_a_late_span_goes_to_an_idle_worker_once_and_a_warning_names_the_late_one(
    tmp_path: Path, clock: Clock
) -> None:
    events, at, given = Events(), {A: 0}, []
    context = job_of(planned("lite", tmp_path), tmp_path / "job", 2, events)
    survey: Any = SimpleNamespace(frames=17)
    job = _HandOut(context, Checkpoint(tmp_path / "job"), cast(Any, None), survey, None)
    job._deadlines = Deadlines(PLAN, team(clock), clock)

    def hand_out(spans: list[Span], *, first: bool, to: int) -> list[Any]:
        given.append((spans, to))
        at[B] = to
        return [B]

    pool: Any = SimpleNamespace(
        worker_of=at.get,
        idle=lambda: [one for one in (0, 1) if one not in at.values()],
        hand_out=hand_out,
    )
    span = Span(stop=8)
    job._spans.begin([A], [span])
    job._look_for_late(pool)
    assert not given
    for _ in range(3):
        clock.now += 5 + 2 * 8 - 1
        job._look_for_late(pool)
    assert given == [([span], 1)]
    assert not events.of(Warned), "it may load its models"
    assert not job._is_stuck
    job._team.workers[0].has_made = True
    job._look_for_late(pool)
    assert [one.notice.code for one in events.of(Warned)] == ["worker-late"]
    for number in (0, 1):
        job._spans.add(record(number))
    B.status = "finished"
    job._look_for_late(pool)
    assert list(job._spans) == [B], "who is late is not waited for"
    assert job._outrun == [A]


def test_where_all_are_silent_the_process_of_the_job_goes_on(tmp_path: Path, clock: Clock) -> None:
    context = job_of(planned("lite", tmp_path), tmp_path / "job", 1, Events())
    survey: Any = SimpleNamespace(frames=17)
    job = _HandOut(context, Checkpoint(tmp_path / "job"), cast(Any, None), survey, None)
    job._deadlines = Deadlines(PLAN, team(clock), clock)
    pool: Any = SimpleNamespace(worker_of={A: 0}.get, idle=list)
    job._spans.begin([A], [Span(stop=8)])
    job._team.workers[0].has_made = True
    for seconds, is_stuck in ((0, False), (15, False), (15, False), (15, True)):
        clock.now += seconds
        job._look_for_late(pool)
        assert job._is_stuck == is_stuck


def test_spans_that_no_worker_takes_are_left_to_the_process_of_the_job(
    tmp_path: Path, clock: Clock
) -> None:
    context = job_of(planned("lite", tmp_path), tmp_path / "job", 1, Events())
    survey: Any = SimpleNamespace(frames=17)
    job = _HandOut(context, Checkpoint(tmp_path / "job"), cast(Any, None), survey, None)
    job._deadlines = Deadlines(PLAN, team(clock), clock)
    pool: Any = SimpleNamespace(
        worker_of={}.get, idle=lambda: [0], hand_out=lambda spans, first: [A]
    )

    def is_stuck_after(seconds: int) -> bool:
        for _ in range(seconds // 10):  # at once: this computer slept
            clock.now += 10
            job._look_for_late(pool)
        return job._is_stuck

    assert not is_stuck_after(600), "there is none yet"
    job._hand_out(pool, [Span(stop=8)])
    assert not is_stuck_after(int(LOADING_S) + 2 * 5)
    assert is_stuck_after(10)
