from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from engine.bench import full_run, run
from engine.bench.calibration import calibrate
from engine.core.errors import Cancelled
from engine.planner.rates import Rates

RATES = Rates(costs={"read": 0.5})
ROWS: list[dict[str, Any]] = [
    {"case": "machine", "processor": "Another one"},
    {"case": "optimisations-vae", "switch": "vae.usual", "about": "VAE, small"},
    {"case": "optimisations-vae", "switch": "vae.in_place", "time": 0.9},
    {"case": "optimisations-around", "switch": "run.tf32", "note": "needs an NVIDIA card"},
]


class _Told:
    """What was told and kept, and whether the table was left before its end."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, str]] = []
        self.kept: list[Rates] = []
        self.was_closed = False

    def tell(self, done: int, total: int, doing: str) -> None:
        self.steps.append((done, total, doing))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> _Told:
    told = _Told()

    def speed_test(tell: Any, stop: Any) -> Rates:
        for number, doing in enumerate(("film", "models")):
            if stop():
                raise Cancelled
            tell(number, 2, doing)
        tell(2, 2, "")
        return RATES

    def measured(names: Sequence[str]) -> Iterator[dict[str, Any]]:
        assert list(names) == ["optimisations"]
        try:
            yield from ROWS
        finally:
            told.was_closed = True

    monkeypatch.setattr(calibrate, "calibrate", speed_test)
    monkeypatch.setattr(calibrate, "keep", told.kept.append)
    monkeypatch.setattr(run, "measured", measured)
    return told


def test_quick_is_the_speed_test_alone(told: _Told) -> None:
    report = full_run.examine(quick=True, tell=told.tell, stop=lambda: False)
    assert told.steps == [(0, 2, "film"), (1, 2, "models"), (2, 2, ""), (2, 2, "")]
    assert told.kept == [RATES]
    assert report.switches == ()
    assert report.figures == (("read", "2 million pixels a second of the CPU"),)
    assert "processor" in report.machine
    assert "2 million pixels" in report.markdown


def test_the_whole_has_the_table(told: _Told) -> None:
    report = full_run.examine(quick=False, tell=told.tell, stop=lambda: False)
    assert [line.name for line in report.switches] == ["vae.in_place", "run.tf32"]
    assert report.notes == ("VAE, small",)
    assert "## Optimisations" in report.markdown
    assert report.machine["processor"] != "Another one"
    done = [step[0] for step in told.steps]
    assert done == sorted(done)
    assert all(done <= total for done, total, _ in told.steps)
    assert told.steps[-1][0] == told.steps[-1][1]


def test_it_stops_between_two_lines_and_keeps_the_speed_test(told: _Told) -> None:
    def stop() -> bool:
        return any(str(doing) == "sums in place" for _, _, doing in told.steps)

    with pytest.raises(Cancelled):
        full_run.examine(quick=False, tell=told.tell, stop=stop)
    assert told.kept == [RATES]
    assert told.was_closed
    assert not any(str(doing) == "TF32" for _, _, doing in told.steps)


def test_it_stops_in_the_speed_test(told: _Told) -> None:
    with pytest.raises(Cancelled):
        full_run.examine(quick=True, tell=told.tell, stop=lambda: True)
    assert told.kept == []
