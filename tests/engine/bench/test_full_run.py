from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from engine.bench import full_run, run
from engine.bench.calibration import calibrate
from engine.bench.report.claims import unmeasured
from engine.core.errors import Cancelled
from engine.core.messages import Message
from engine.planner.rates import Rates

RATES = Rates(costs={"read": 0.5})
ROWS: list[dict[str, Any]] = [
    {"case": "machine", "processor": "Another one"},
    {"case": "optimisations-vae", "switch": "vae.usual", "about": "VAE, small"},
    {"case": "optimisations-vae", "switch": "vae.in_place", "time": 0.9},
    {"case": "optimisations-around", "switch": "run.tf32", "note": "needs an NVIDIA GPU"},
]


class _Run:
    """Reported steps and saved costs, and whether the cases were closed."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, str]] = []
        self.saved: list[Rates] = []
        self.was_closed = False

    def report(self, done: int, total: int, step: Message | None) -> None:
        self.steps.append((done, total, "" if step is None else str(step)))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> _Run:
    seen = _Run()

    def speed_test(report: Any, stop: Any) -> Rates:
        for number, doing in enumerate(("film", "models")):
            if stop():
                raise Cancelled
            report(number, 2, doing)
        report(2, 2, None)
        return RATES

    def measured(names: Sequence[str]) -> Iterator[dict[str, Any]]:
        assert list(names) == ["optimisations"]
        try:
            yield from ROWS
        finally:
            seen.was_closed = True

    monkeypatch.setattr(calibrate, "calibrate", speed_test)
    monkeypatch.setattr(calibrate, "keep", seen.saved.append)
    monkeypatch.setattr(run, "measured", measured)
    return seen


def test_quick_is_the_speed_test_alone(seen: _Run) -> None:
    report = full_run.examine(quick=True, report=seen.report, stop=lambda: False)
    assert seen.steps == [(0, 2, "film"), (1, 2, "models"), (2, 2, ""), (2, 2, "")]
    assert seen.saved == [RATES]
    assert report.switches == ()
    (figure,) = report.figures
    assert (str(figure.title), str(figure.value)) == ("Reading a video", "2 million px/s")
    assert "processor" in report.machine
    assert "2 million pixels" in report.markdown


def test_the_full_run_has_the_table(seen: _Run) -> None:
    report = full_run.examine(quick=False, report=seen.report, stop=lambda: False)
    names = [line.name for line in report.switches]
    assert names == ["vae.in_place", "run.tf32", *(line.name for line in unmeasured())]
    assert report.notes == ("VAE, small",)
    assert "## Optimisations" in report.markdown
    assert report.machine["processor"] != "Another one"
    done = [step[0] for step in seen.steps]
    assert done == sorted(done)
    assert all(done <= total for done, total, _ in seen.steps)
    assert seen.steps[-1][0] == seen.steps[-1][1]


def test_a_cancel_between_two_rows_keeps_the_speed_test(seen: _Run) -> None:
    def stop() -> bool:
        return any(str(doing) == "in-place sums" for _, _, doing in seen.steps)

    with pytest.raises(Cancelled):
        full_run.examine(quick=True, report=seen.report, stop=lambda: True)
    assert seen.saved == [], "it was cancelled in the speed test"
    with pytest.raises(Cancelled):
        full_run.examine(quick=False, report=seen.report, stop=stop)
    assert seen.saved == [RATES]
    assert seen.was_closed
    assert not any(str(doing) == "TF32" for _, _, doing in seen.steps)
