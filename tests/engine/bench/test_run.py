from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from engine.bench import run, synthetic_clip
from engine.bench.calibration import calibrate
from engine.bench.cases import shared
from engine.bench.cases.pipeline import run_pipeline
from engine.bench.options import BenchOptions
from engine.core.errors import SettingsError
from engine.core.geometry import Size
from engine.planner.rates import Rates
from engine.settings.schema import JobSettings
from engine.video.read.probe import probe


def test_an_unknown_case_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="'fly'") as caught:
        run.run(["read", "fly"])
    assert "speed, lite, pipeline, colour, read, write" in caught.value.hint


def test_a_group_stands_for_its_cases_and_slow_ones_have_to_be_named() -> None:
    usual = BenchOptions()
    named = run.named(["vae", "read", "vae-decode"], usual)
    assert named == ("vae-encode", "vae-decode", "read")
    assert run.named([], usual) == ("speed", "lite", "pipeline", "colour", "read", "write")
    assert run.named([], BenchOptions(quick=True)) == ("speed",)
    assert run.named(["vae"], BenchOptions(clip=Path("film.mkv"))) == ("round-trip",)


def test_the_clip_is_the_same_each_time_and_has_detail_and_movement() -> None:
    first, again = (synthetic_clip._Painter(Size(96, 54)) for _ in range(2))
    pictures = [first.paint(number) for number in range(3)]
    assert all(np.array_equal(picture, again.paint(n)) for n, picture in enumerate(pictures))
    assert pictures[0].std() > 15
    assert np.abs(pictures[2].astype(int) - pictures[0]).mean() > 3


def test_a_case_gives_figures_behind_those_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared, "SOURCE", Size(96, 54))
    monkeypatch.setattr(shared, "QUICK_FRAMES", 8)
    told: list[str] = []
    machine, *rows = run.run(
        ["read", "write", "read"], options=BenchOptions(quick=True), tell=told.append
    )
    assert machine["case"] == "machine"
    assert [row["case"] for row in rows] == ["read", "write"]
    assert all(row["frames_per_second"] > 0 for row in rows)
    assert told == ["read measured", "write measured"]


def test_the_speed_test_is_kept_where_it_was_made_as_jobs_compute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[Rates] = []
    rates = Rates(costs={"read": 0.5})
    monkeypatch.setattr(calibrate, "calibrate", lambda: rates)
    monkeypatch.setattr(calibrate, "keep", kept.append)
    _, row = run.run([], options=BenchOptions(quick=True))
    assert row == {
        "case": "speed",
        "what": "read",
        "figure": "2 million pixels a second of the CPU",
    }
    assert kept == [rates]
    run.run(["speed"], options=BenchOptions(threads=1))
    assert kept == [rates]


def test_a_row_comes_when_it_is_there_and_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    rows = run.measured(["optimisations-around"], options=BenchOptions(threads=1, device="cpu"))
    assert next(rows)["case"] == "machine"
    assert next(rows)["switch"] == "run.cudnn_benchmark"  # before anything is measured
    assert torch.get_num_threads() == 1
    assert not torch.is_inference_mode_enabled()
    rows.close()  # as who stops does
    assert torch.get_num_threads() == before


def test_the_whole_program_is_measured_in_steps(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    synthetic_clip.make_clip(path, Size(96, 54), 8)
    row = run_pipeline(probe(path), JobSettings(model="none"), tmp_path)
    assert row["verified"] is True
    steps = [row[f"{name}_cpu_ms"] for name in ("run", "mux", "verify")]
    assert sum(steps) == pytest.approx(row["cpu_ms_a_frame"], rel=0.2)
    assert [file.name for file in tmp_path.iterdir()] == ["clip.mp4"]
