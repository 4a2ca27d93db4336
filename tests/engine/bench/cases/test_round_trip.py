from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.bench.cases import round_trip
from engine.bench.cases.film_clip import film_clip, middle
from engine.bench.cases.round_trip import likeness, round_trip_rows, variants
from engine.bench.cases.vae_runs import base_run
from engine.bench.options import BenchOptions
from engine.bench.run import run
from engine.bench.synthetic_clip import make_clip
from engine.core.errors import (
    InputError,
    SettingsError,
    WeightsMissing,
    WrongModel,
)
from engine.core.geometry import Size
from engine.settings.optimisations import VaeSwitches
from tests.helpers.seedvr2_files import write_seedvr2
from tests.helpers.tiny_wan import tiny_wan_config, write_wan

NEAR = 1e-3


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    make_clip(path, Size(72, 40), 8)
    return path


@pytest.fixture
def options(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BenchOptions:
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path / "models"))
    return BenchOptions(
        model="wan21-vae", clip=clip, frames=(5,), memory=False, device="cpu", threads=1
    )


def test_the_clip_is_cut_to_what_the_model_takes(clip: Path) -> None:
    frames = film_clip(clip, 7, 4)
    assert frames.shape == (5, 3, 40, 72)
    assert -1 <= float(frames.min()) < -0.5 < 0.5 < float(frames.max()) <= 1
    assert len(film_clip(clip, 99, 4)) == 5, "the film has eight"
    cut = middle(frames, None, 16)
    assert torch.equal(cut, frames[:, :, 4:36, 4:68])
    assert middle(frames, Size(50, 20), 8).shape == (5, 3, 16, 48)
    with pytest.raises(InputError, match="72x40 are too small"):
        middle(frames, None, 64)


def test_every_switch_has_a_line(options: BenchOptions, tmp_path: Path) -> None:
    path = tmp_path / "vae.safetensors"
    write_wan(path)
    rows = list(round_trip_rows(replace(options, vae=path)))
    turned = [entry for entry in VaeSwitches.optimisations() if "cpu" in entry.devices]
    assert [row["form"] for row in rows] == [
        "plain",
        "fast",
        *(f"{'without' if e.default else 'with'} {e.name}" for e in turned),
    ]
    for row in rows:
        assert (row["frames"], row["size"]) == (5, "72x40")
        assert row["encode_s"] > 0 < row["decode_s"]
        assert row["error"] < 1e-4
        assert row["psnr_db"] == pytest.approx(rows[0]["psnr_db"], abs=NEAR)
        assert row["ssim"] == pytest.approx(rows[0]["ssim"], abs=NEAR)
        assert "note" not in row
    assert rows[0]["psnr_db"] < 30, "random numbers do not give the clip back"


@pytest.mark.parametrize("form", ["plain", "fast"])
def test_one_form_and_the_memory_that_it_takes(
    options: BenchOptions, tmp_path: Path, form: str
) -> None:
    path = tmp_path / "vae.safetensors"
    write_wan(path, tiny_wan_config("2x"))
    chosen = replace(options, model="wan-2x", vae=path, form=form, memory=True)
    (row,) = round_trip_rows(chosen)
    assert row["form"] == form
    assert row["encode_peak_mib"] > 0 < row["decode_peak_mib"]


def test_the_vae_of_seedvr2_takes_the_same_way(options: BenchOptions, tmp_path: Path) -> None:
    files = write_seedvr2(tmp_path / "seedvr2")
    chosen = replace(options, model="seedvr2-vae", vae=files.vae, quick=True)
    found = run(["vae"], options=chosen)
    assert [row["case"] for row in found] == ["machine", "round-trip", "round-trip"]
    assert [row["form"] for row in found[1:]] == ["plain", "fast"]


def test_pictures_are_compared_at_the_size_of_the_source() -> None:
    clip = torch.rand(1, 3, 2, 24, 32) * 2 - 1
    larger = clip.repeat_interleave(2, 3).repeat_interleave(2, 4)
    assert likeness(clip, larger) == {"psnr_db": float("inf"), "ssim": pytest.approx(1)}
    found = likeness(clip, clip + 0.1)
    assert 20 < found["psnr_db"] < 40
    assert likeness(clip, clip + 0.2)["psnr_db"] < found["psnr_db"]


def test_switches_that_are_named_are_measured_alone(options: BenchOptions) -> None:
    base = base_run(options, "encode")
    named = replace(options, without=("in_place",), only=("temporal_winograd",))
    titles = [title for title, _ in variants(named, base)]
    assert titles == ["plain", "fast", "without in_place", "with temporal_winograd"]
    turned = dict(variants(named, base))["with temporal_winograd"].switches
    assert turned.temporal_winograd
    assert turned.in_place


def test_random_numbers_are_wanted_by_name_only(options: BenchOptions) -> None:
    with pytest.raises(WeightsMissing) as caught:
        list(round_trip_rows(options))
    assert "models download wan21-vae-fp32" in caught.value.hint
    small = replace(options, config=tiny_wan_config(), random_weights=True, quick=True)
    for row in round_trip_rows(small):
        assert row["note"] == round_trip._MEANINGLESS


def test_what_cannot_be_measured_is_said(options: BenchOptions, tmp_path: Path) -> None:
    path = tmp_path / "vae.safetensors"
    write_wan(path)
    with pytest.raises(WrongModel, match="not a Wan 2"):
        list(round_trip_rows(replace(options, model="wan22-vae", vae=path)))
    with pytest.raises(SettingsError, match="no clip"):
        list(round_trip_rows(replace(options, vae=path, clip=None)))
    with pytest.raises(InputError):
        list(round_trip_rows(replace(options, vae=path, clip=path)))
