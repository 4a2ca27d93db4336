import pytest

from engine.core.geometry import Size
from engine.planner.rates import Rates, load_rates
from engine.settings.schema import JobSettings
from tools.reports import prediction
from tools.reports.prediction import Job, Line, compare, median_error


def a_line(cpu, predicted):
    return Line(title="a", cpu=cpu, cpu_predicted=predicted, wall=1.0, wall_predicted=1.0)


def test_the_median_counts_too_much_and_too_little_alike():
    lines = [a_line(10, 20), a_line(10, 9), a_line(10, 8)]
    assert [round(line.error, 2) for line in lines] == [1.0, -0.1, -0.2]
    assert median_error(lines) == pytest.approx(0.2)


def test_a_job_is_predicted_and_run_and_teaches_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("UPREEL_CACHE", str(tmp_path))
    job = Job("small", Size(64, 48), 4, lambda folder: JobSettings(model="lite", scale=2))
    (line,) = compare((job,), Rates())
    assert line.title == "small"
    assert min(line.cpu, line.wall, line.cpu_predicted, line.wall_predicted) > 0
    assert load_rates() == Rates()


def test_the_command_prints_the_table_and_fails_above_a_quarter(capsys, monkeypatch):
    monkeypatch.setattr(prediction.calibrate, "calibrate", Rates)
    for predicted, status in ((12, 0), (13, 1)):
        lines = [a_line(10, predicted)]
        monkeypatch.setattr(prediction, "compare", lambda jobs, rates, lines=lines: iter(lines))
        assert prediction.main() == status
        table = capsys.readouterr().out
        assert f"| {predicted:.1f} | 10.0 | +{10 * predicted - 100}% |" in table
        assert f"Median error of the processor time: {10 * predicted - 100}%." in table
