from pathlib import Path
from typing import Any

import pytest

from engine.core import windows_paths
from engine.core.errors import PretendedGpu, WeightsMissing
from engine.hardware.gpu_table import named
from engine.pipeline.prepare import Machine, check_plan, make_plan, probe_source
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.read.probe import probe
from tests.helpers.clips import make_clip, make_picture, make_pictures

COPY = JobSettings(model="none")


def machine(folder: Path, **changes: Any) -> Machine:
    return Machine(settings=EngineSettings(), jobs_folder=folder / "jobs", **changes)


def test_existing_folder_takes_the_result_under_its_usual_name(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()

    def planned(source: Path, output: Path | None) -> Path:
        plan = make_plan(probe(source), COPY, output, machine(tmp_path))
        assert plan.fits, plan.notices
        return plan.output

    shots = make_pictures(tmp_path / "shots", 3)
    for source, name in (
        (make_clip(tmp_path / "film.mkv", frames=3), "film_copy.mkv"),
        (make_picture(tmp_path / "still.png"), "still_copy.png"),
        (shots, "shot_copy"),
    ):
        assert planned(source, there) == there / name
        assert planned(source, None) == source.parent / name
    assert planned(shots, tmp_path / "larger") == tmp_path / "larger"


def test_paths_become_openable_on_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands for Windows' long form: what no call can open becomes what every call can."""
    real, meant = tmp_path / "real", tmp_path / "meant"
    real.mkdir()
    make_clip(real / "film.mkv", frames=3)
    monkeypatch.setattr(
        windows_paths, "openable", lambda path: Path(str(path).replace(str(meant), str(real)))
    )
    media = probe_source(meant / "film.mkv", COPY)
    assert media.path == real / "film.mkv"
    for output in (meant, meant / "new.mkv"):
        plan = make_plan(media, COPY, output, machine(tmp_path))
        assert plan.fits
        assert plan.output.parent == real


def test_a_start_without_the_model_says_that_and_not_that_memory_is_short(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "film.mkv", frames=3)
    settings = JobSettings(model="seedvr2-7b")
    plan = make_plan(probe(source), settings, None, machine(tmp_path))
    with pytest.raises(WeightsMissing) as caught:
        check_plan(probe(source), plan, overwrite=False)
    assert "seedvr2-7b-q4" in str(caught.value.params["files"])


def test_a_plan_for_a_pretended_card_starts_only_on_the_processor(tmp_path: Path) -> None:
    media = probe(make_clip(tmp_path / "film.mkv", frames=3))
    pretending = machine(tmp_path, pretend=named("RTX 5070 Ti"))
    plan = make_plan(media, JobSettings(), None, pretending)
    assert (plan.is_pretended, plan.card) == (True, "RTX 5070 Ti, 16 GB")
    assert [n.code for n in plan.notices if n.severity == "refusal"] == ["pretended-card"]
    with pytest.raises(PretendedGpu, match="RTX 5070 Ti"):
        check_plan(media, plan, overwrite=False)
    plan = make_plan(media, JobSettings(device="cpu"), None, pretending)
    assert plan.fits
    check_plan(media, plan, overwrite=False)
