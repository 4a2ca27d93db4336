from __future__ import annotations

import time

import pytest

from engine.bench.timing import clock
from engine.bench.timing.clock import Effort, Ratio, Timing, compare, cost_of, measure


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))


def test_cpu_seconds_count_work_and_not_waiting() -> None:
    timing = measure(lambda: time.sleep(0.05), runs=3)
    assert timing.wall_s >= 0.05
    assert timing.seconds < 0.04
    assert 0.015 < measure(lambda: busy(0.02), runs=3).seconds < 0.2


def test_medians_of_runs_without_the_warm_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([5.0, 1.0, 2.0])
    monkeypatch.setattr(clock, "_on_cpu", lambda work: Timing(seconds=next(seconds), wall_s=1.0))
    calls: list[int] = []
    assert measure(lambda: calls.append(1), runs=3, warm_ups=2).seconds == 2.0
    assert len(calls) == 2


def test_slow_work_runs_twice_and_fast_work_until_it_is_enough() -> None:
    calls: list[int] = []
    cost_of(lambda: calls.append(1), 1, runs=5)
    assert len(calls) == 6  # the first does not count
    calls.clear()
    cost_of(lambda: calls.append(1), 1, runs=1)
    assert len(calls) == 1


def test_both_run_in_each_round_and_alternate_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def measured(work: str, device: str, *, runs: int) -> Timing:
        calls.append(work.split()[0])
        seconds = float(work.split()[1])
        return Timing(seconds=seconds, wall_s=seconds)

    monkeypatch.setattr(clock, "measure", measured)
    found = compare("a 4", "b 2", "cpu", Effort.exactly(3))  # type: ignore[arg-type]  # a fake clock
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert (found.value, found.scatter, found.rounds) == (2.0, 0.0, 3)


def test_scatter_and_time_limit_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounds(effort: Effort, *ratios: float) -> int:
        found = iter(ratios)
        monkeypatch.setattr(clock, "_round", lambda *_, is_first: next(found))
        return compare(print, print, "cpu", effort).rounds

    precise = Effort(least=2, most=5, scatter=0.01)
    assert rounds(precise, 1.0, 1.3, 0.8, 1.1, 1.0, 1.0) == 5
    assert rounds(precise, 1.0, 1.0, 1.0) == 2
    assert rounds(Effort(least=3, most=9, scatter=0.001, seconds=0.0), 1.0, 1.3, 0.8, 1.1) == 3


def test_a_single_round_has_no_scatter() -> None:
    assert Ratio.of([1.5]).scatter is None
    assert Ratio.of([2.0, 2.2, 1.8]).scatter == pytest.approx(1.25 * 0.2 / 3**0.5)
