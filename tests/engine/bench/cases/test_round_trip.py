from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.bench.cases import vae as round_trip
from engine.bench.cases.vae import changed_variants, round_trip_rows, similarity
from engine.bench.jobs import centre_crop, first_frames, make_clip
from engine.bench.memory import ProcessMemory
from engine.bench.run import BenchOptions, run
from engine.bench.workload import vae_run
from engine.core.errors import InputError, SettingsError, WeightsMissing, WrongModel
from engine.core.geometry import Size
from engine.settings.optimisations import VaeSwitches
from tests.helpers.seedvr2 import write_seedvr2
from tests.helpers.wan import tiny_wan_config, write_wan


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


@pytest.fixture
def vae(tmp_path: Path) -> Path:
    """A tiny Wan 2.1."""
    write_wan(tmp_path / "vae.safetensors")
    return tmp_path / "vae.safetensors"


@pytest.mark.extended
def test_changed_switches_give_the_same_result(options: BenchOptions, vae: Path) -> None:
    named = replace(options, vae=vae, without=("in_place",), only=("temporal_winograd",))
    rows = list(round_trip_rows(named))
    titles = ["plain", "fast", "without in_place", "with temporal_winograd"]
    assert [row["form"] for row in rows] == titles
    for row in rows:
        assert (row["frames"], row["size"]) == (5, "72x40")
        assert row["encode_s"] > 0 < row["decode_s"]
        assert row["error"] < 1e-4
        for name in ("psnr_db", "ssim"):
            assert row[name] == pytest.approx(rows[0][name], abs=1e-3)
        assert "note" not in row
    assert rows[0]["psnr_db"] < 30, "random weights do not reproduce the clip"


def test_all_switches_are_changed_where_none_is_named(options: BenchOptions) -> None:
    base = vae_run(options, "encode")
    here = [entry for entry in VaeSwitches.optimisations() if entry.works_on("cpu")]
    assert [title for title, _ in changed_variants(options, base)] == [
        "plain",
        "fast",
        *(f"{'without' if entry.default else 'with'} {entry.name}" for entry in here),
    ]
    named = replace(options, without=("in_place",), only=("temporal_winograd",))
    found = dict(changed_variants(named, base))["with temporal_winograd"].switches
    assert found.temporal_winograd
    assert found.in_place


def test_one_variant_and_its_memory(
    options: BenchOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = ProcessMemory(
        loaded_bytes=0, peak_bytes=3 * 2**20, result_bytes=0, traffic_bytes=0, is_alone=True
    )
    monkeypatch.setattr(round_trip, "memory_of", lambda run: memory)
    path = tmp_path / "vae.safetensors"
    write_wan(path, tiny_wan_config("2x"))
    (row,) = round_trip_rows(replace(options, model="wan-2x", vae=path, form="fast", memory=True))
    assert row["form"] == "fast"
    assert row["encode_peak_mib"] == row["decode_peak_mib"] == 3
    files = write_seedvr2(tmp_path / "seedvr2")
    found = run(["vae"], options=replace(options, model="seedvr2-vae", vae=files.vae, quick=True))
    assert [row["case"] for row in found] == ["machine", "round-trip", "round-trip"]
    assert [row["form"] for row in found[1:]] == ["plain", "fast"]


def test_random_weights_are_taken_on_request_only(options: BenchOptions) -> None:
    with pytest.raises(WeightsMissing) as caught:
        list(round_trip_rows(options))
    assert "models download wan21-vae-fp32" in caught.value.hint
    small = replace(options, config=tiny_wan_config(), random_weights=True, quick=True)
    for row in round_trip_rows(small):
        assert "are meaningless" in str(row["note"])


def test_results_are_compared_at_the_size_of_the_source() -> None:
    clip = torch.rand(1, 3, 2, 24, 32) * 2 - 1
    larger = clip.repeat_interleave(2, 3).repeat_interleave(2, 4)
    assert similarity(clip, larger) == {"psnr_db": float("inf"), "ssim": pytest.approx(1)}
    near, far = (similarity(clip, clip + change)["psnr_db"] for change in (0.1, 0.2))
    assert 20 < far < near < 40


def test_wrong_files_and_a_missing_clip_are_refused(options: BenchOptions, vae: Path) -> None:
    with pytest.raises(WrongModel, match="not a Wan 2"):
        list(round_trip_rows(replace(options, model="wan22-vae", vae=vae)))
    with pytest.raises(SettingsError, match="No clip"):
        list(round_trip_rows(replace(options, vae=vae, clip=None)))
    with pytest.raises(InputError):
        list(round_trip_rows(replace(options, vae=vae, clip=vae)))


def test_the_clip_has_movement_and_is_cut_to_sizes_of_the_model(clip: Path, tmp_path: Path) -> None:
    frames = first_frames(clip, 7, 4)
    assert frames.shape == (5, 3, 40, 72)
    assert -1 <= float(frames.min()) < -0.5 < 0.5 < float(frames.max()) <= 1
    assert float((frames[2] - frames[0]).abs().mean()) > 3 / 128
    make_clip(tmp_path / "again.mp4", Size(72, 40), 8)
    assert (tmp_path / "again.mp4").read_bytes() == clip.read_bytes()
    assert torch.equal(first_frames(tmp_path / "again.mp4", 7, 4), frames)
    assert len(first_frames(clip, 99, 4)) == 5, "the film has eight"
    assert torch.equal(centre_crop(frames, None, 16), frames[:, :, 4:36, 4:68])
    assert centre_crop(frames, Size(50, 20), 8).shape == (5, 3, 16, 48)
    with pytest.raises(InputError, match="72x40 are too small"):
        centre_crop(frames, None, 64)
