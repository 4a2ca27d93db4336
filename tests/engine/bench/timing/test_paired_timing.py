from __future__ import annotations

import pytest

from engine.bench.timing import paired_timing
from engine.bench.timing.paired_timing import Effort, compare, ratio_of
from engine.bench.timing.peak_rates import Clocked


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Work is its name and the seconds that it takes: "slow 4"."""
    made: list[str] = []

    def clocked(work: str, device: str, *, runs: int, warm_ups: int) -> Clocked:
        made.append(work.split()[0])
        seconds = float(work.split()[1])
        return Clocked(seconds=seconds, wall_s=seconds)

    monkeypatch.setattr(paired_timing, "clocked", clocked)
    return made


def test_both_run_in_each_turn_and_take_turns_to_begin(calls: list[str]) -> None:
    found = compare("a 4", "b 2", "cpu", Effort.exactly(3))  # type: ignore[arg-type]  # a fake clock
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert (found.value, found.scatter, found.turns) == (2.0, 0.0, 3)


def test_scatter_decides_how_often(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = iter([1.0, 1.3, 0.8, 1.1, 1.0, 1.0])
    monkeypatch.setattr(paired_timing, "_turn", lambda *_, begins: next(ratios))
    wild = compare(print, print, "cpu", Effort(least=2, most=5, scatter=0.01))
    assert wild.turns == 5
    monkeypatch.setattr(paired_timing, "_turn", lambda *_, begins: 1.0)
    assert compare(print, print, "cpu", Effort(least=2, most=5, scatter=0.01)).turns == 2


def test_time_is_bounded_but_for_the_least_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = iter([1.0, 1.3, 0.8, 1.1])
    monkeypatch.setattr(paired_timing, "_turn", lambda *_, begins: next(ratios))
    effort = Effort(least=3, most=9, scatter=0.001, seconds=0.0)
    assert compare(print, print, "cpu", effort).turns == 3


def test_a_single_turn_has_no_scatter_and_the_inverse_keeps_its_share() -> None:
    assert ratio_of([1.5]).scatter is None
    found = ratio_of([2.0, 2.2, 1.8])
    assert found.scatter == pytest.approx(1.25 * 0.2 / 3**0.5)
    assert found.inverse.value == 0.5
    assert found.inverse.scatter == pytest.approx((found.scatter or 0) / 4)
