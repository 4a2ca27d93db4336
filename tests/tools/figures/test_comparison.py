"""The comparison of figures with their baseline; measuring itself is a command."""

import json

import pytest

from tools.figures import __main__ as program
from tools.figures import baseline
from tools.figures.child import FigureFailed
from tools.figures.figure import FIGURES, Figure, named

SPEED = Figure(name="start.help", unit="s", limit=0.30, about="")
PEAK = Figure(name="jobs.peak", unit="MB", limit=600, about="", tolerance=None)
QUALITY = Figure(
    name="quality.psnr", unit="dB", limit=34, about="", tolerance=0.01, more_is_better=True
)


@pytest.mark.parametrize(
    ("figure", "before", "now", "verdict"),
    [
        (SPEED, 0.20, 0.219, ""),
        (SPEED, 0.20, 0.221, "worse"),
        (SPEED, 0.20, 0.1, ""),
        (SPEED, 0.29, 0.301, "past its limit"),
        (SPEED, None, 0.2, "new"),
        (SPEED, None, 0.4, "past its limit"),
        (SPEED, 0.20, None, "not measured"),
        (PEAK, 300, 599, ""),
        (PEAK, 300, 601, "past its limit"),
        (QUALITY, 36.0, 35.7, ""),
        (QUALITY, 36.0, 35.6, "worse"),
        (QUALITY, 36.0, 40.0, ""),
        (QUALITY, 34.1, 33.9, "past its limit"),
    ],
)
def test_what_became_worse(figure, before, now, verdict):
    line = baseline.Line(figure=figure, baseline=before, now=now)
    assert line.verdict == verdict
    assert line.is_fault == (verdict in ("worse", "past its limit"))


def test_no_limit_is_one_that_the_baseline_passes_or_cannot_reach():
    committed = baseline.load().values
    for figure in FIGURES:
        value = committed.get(figure.name)
        if value is not None:
            assert not figure.is_past_limit(value), figure.name
            assert 0.1 < value / figure.limit < 10, figure.name


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Two groups: values of `start` by turn, and a `planning` that may fail."""
    monkeypatch.setattr(baseline, "PATH", tmp_path / "figures.json")
    turns: list[dict[str, float] | str] = []

    def measure(_children):
        found = turns.pop(0)
        if isinstance(found, str):
            raise FigureFailed(found)
        return found

    monkeypatch.setitem(program.MEASURES, "start", measure)
    return turns


def run(*arguments: str) -> int:
    return program.main([*arguments, "--only", "start.help"])


def test_a_suspect_is_measured_again_and_the_better_of_both_counts(measured, capsys):
    measured += [{"start.help": 0.21, "start.engine_import": 9.0}, {"start.help": 0.2}]
    assert run("--write", "--reason", "first") == 0
    measured += [{"start.help": 0.25}, {"start.help": 0.205}]
    assert run() == 0
    assert "No figure became worse" in capsys.readouterr().out
    measured += [{"start.help": 0.25}, {"start.help": 0.24}]
    assert run() == 1
    assert "start.help is worse: 0.24 s, the baseline has 0.2 s" in capsys.readouterr().out
    assert not measured


def test_a_measurement_that_fails_fails_the_check(measured, capsys):
    measured += ["The process ended."]
    assert run() == 1
    assert "start failed: The process ended." in capsys.readouterr().out


def test_the_baseline_moves_with_a_reason_only(measured, capsys):
    with pytest.raises(SystemExit):
        run("--write")
    for value, reason in ((0.2, "first"), (0.1, "imports later")):
        measured += 2 * [{"start.help": value}]
        assert run("--write", "--reason", reason) == 0
    data = json.loads(baseline.PATH.read_text("utf-8"))
    assert [move["reason"] for move in data["moves"]] == ["first", "imports later"]
    assert data["figures"] == {"start.help": {"unit": "s", "value": 0.1}}
    capsys.readouterr()


def test_an_unknown_figure_is_named():
    with pytest.raises(ValueError, match="speed"):
        named(["speed"])
