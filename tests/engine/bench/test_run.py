from pathlib import Path

import pytest
import torch

from engine.bench import calibration, run
from engine.bench.cases import video
from engine.bench.cases.video import run_pipeline
from engine.bench.jobs import make_clip
from engine.bench.run import BenchOptions
from engine.core.errors import SettingsError
from engine.core.geometry import Size
from engine.core.messages import message
from engine.planner.rates import Rates
from engine.settings.schema import JobSettings
from engine.video.read.probe import probe


def test_an_unknown_case_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="'fly'") as caught:
        run.run(["read", "fly"])
    assert "speed, lite, pipeline, colour, read, write" in caught.value.hint
    for case in run.CASES.values():
        rows = case.rows(BenchOptions(device="cpu"))
        assert hasattr(rows, "__next__")  # nothing was measured yet


def test_a_group_stands_for_its_cases_and_slow_ones_have_to_be_named() -> None:
    usual = BenchOptions()
    names = run.case_names(["vae", "read", "vae-decode"], usual)
    assert names == ("vae-encode", "vae-decode", "vae-parts", "read")
    assert run.case_names([], usual) == ("speed", "lite", "pipeline", "colour", "read", "write")
    assert run.case_names([], BenchOptions(quick=True)) == ("speed",)
    assert run.case_names(["vae"], BenchOptions(clip=Path("film.mkv"))) == ("round-trip",)


def test_a_case_gives_rows_after_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "SOURCE", Size(96, 54))
    monkeypatch.setattr(video, "QUICK_FRAMES", 8)
    lines: list[str] = []
    machine, *rows = run.run(
        ["read", "write", "read"], options=BenchOptions(quick=True), report=lines.append
    )
    assert machine["case"] == "machine"
    assert [row["case"] for row in rows] == ["read", "write"]
    assert all(row["frames_per_second"] > 0 for row in rows)
    assert lines == ["read measured", "write measured"]


def test_rows_of_a_run_are_plain_data(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"model": "a model", "note": message("bench.out-of-memory")}
    monkeypatch.setattr(run.BenchCase, "rows", lambda case, options: iter([row]))
    lines: list[str] = []
    assert run.run(["models"], report=lines.append)[1:] == [
        {"case": "models", "model": "a model", "note": "not enough memory"}
    ]
    assert lines == ["a model measured", "models measured"]


def test_the_speed_test_is_saved_if_it_ran_as_jobs_do(monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[Rates] = []
    rates = Rates(costs={"read": 0.5})
    monkeypatch.setattr(calibration, "calibrate", lambda: rates)
    monkeypatch.setattr(calibration, "keep", saved.append)
    _, row = run.run([], options=BenchOptions(quick=True))
    figure = "2 million pixels/s on the CPU"
    assert row == {"case": "speed", "what": "read", "figure": figure}
    assert saved == [rates]
    run.run(["speed"], options=BenchOptions(threads=1))
    assert saved == [rates]


def test_rows_come_as_they_are_measured_and_threads_are_restored() -> None:
    before = torch.get_num_threads()
    rows = run.measured(["optimisations-around"], options=BenchOptions(threads=1, device="cpu"))
    assert next(rows)["case"] == "machine"
    assert next(rows)["switch"] == "run.cudnn_benchmark"  # before anything is measured
    assert torch.get_num_threads() == 1
    assert not torch.is_inference_mode_enabled()
    rows.close()  # as a cancel does
    assert torch.get_num_threads() == before


def test_a_whole_job_is_measured_in_steps(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    make_clip(path, Size(96, 54), 8)
    row = run_pipeline(probe(path), JobSettings(model="none"), tmp_path)
    assert row["verified"] is True
    steps = [row[f"{name}_cpu_ms"] for name in ("run", "mux", "verify")]
    assert sum(steps) == pytest.approx(row["cpu_ms_a_frame"], rel=0.2)
    assert [file.name for file in tmp_path.iterdir()] == ["clip.mp4"]
