from __future__ import annotations

from pathlib import Path

import pytest

from engine.core import windows_paths
from engine.core.errors import PretendedGpu, WeightsMissing
from engine.hardware.gpu_table import named
from engine.pipeline.prepare import Machine, check_plan, make_plan, probe_source
from engine.protocol.plan import Plan
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.read.probe import probe
from tests.helpers.clips import make_clip, make_picture, make_pictures

COPY = JobSettings(model="none")


def planned(source: Path, output: Path | None, folder: Path) -> Path:
    machine = Machine(settings=EngineSettings(), jobs_folder=folder / "jobs")
    plan = make_plan(probe(source), COPY, output, machine)
    assert plan.fits, plan.notices
    return plan.output


@pytest.mark.parametrize("kind", ["film", "picture", "sequence"])
def test_existing_folder_takes_the_result_under_its_usual_name(kind: str, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    source, name = _source(kind, tmp_path)
    assert planned(source, there, tmp_path) == there / name
    assert planned(source, None, tmp_path) == source.parent / name


def _source(kind: str, folder: Path) -> tuple[Path, str]:
    if kind == "film":
        return make_clip(folder / "film.mkv", frames=3), "film_copy.mkv"
    if kind == "picture":
        return make_picture(folder / "still.png"), "still_copy.png"
    return make_pictures(folder / "shots", 3), "shot_copy"


def test_paths_become_openable_at_the_two_doors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stands for Windows' long form: what no call can open becomes what every call can."""
    real, meant = tmp_path / "real", tmp_path / "meant"
    real.mkdir()
    make_clip(real / "film.mkv", frames=3)
    monkeypatch.setattr(
        windows_paths, "openable", lambda path: Path(str(path).replace(str(meant), str(real)))
    )
    media = probe_source(meant / "film.mkv", COPY)
    assert media.path == real / "film.mkv"
    machine = Machine(settings=EngineSettings(), jobs_folder=tmp_path / "jobs")
    for output in (meant, meant / "new.mkv"):
        plan = make_plan(media, COPY, output, machine)
        assert plan.fits
        assert plan.output.parent == real


def test_new_folder_becomes_the_result_of_a_sequence(tmp_path: Path) -> None:
    source = make_pictures(tmp_path / "shots", 3)
    assert planned(source, tmp_path / "larger", tmp_path) == tmp_path / "larger"


def test_a_start_without_the_model_says_that_and_not_that_memory_is_short(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "film.mkv", frames=3)
    machine = Machine(settings=EngineSettings(), jobs_folder=tmp_path / "jobs")
    plan = make_plan(probe(source), JobSettings(model="seedvr2-7b"), None, machine)
    with pytest.raises(WeightsMissing) as caught:
        check_plan(probe(source), plan, overwrite=False)
    assert "seedvr2-7b-q4" in str(caught.value.params["files"])


def pretending(folder: Path, settings: JobSettings) -> Plan:
    machine = Machine(
        settings=EngineSettings(),
        jobs_folder=folder / "jobs",
        pretend=named("RTX 5070 Ti"),
    )
    source = make_clip(folder / "film.mkv", frames=3)
    return make_plan(probe(source), settings, None, machine)


def test_a_plan_for_a_pretended_card_says_so_and_cannot_start(tmp_path: Path) -> None:
    plan = pretending(tmp_path, JobSettings())
    assert (plan.is_pretended, plan.card) == (True, "RTX 5070 Ti, 16 GB")
    assert [n.code for n in plan.notices if n.severity == "refusal"] == ["pretended-card"]
    with pytest.raises(PretendedGpu, match="RTX 5070 Ti"):
        check_plan(probe(plan.source), plan, overwrite=False)


def test_work_of_the_processor_can_start_whatever_card_is_pretended(tmp_path: Path) -> None:
    plan = pretending(tmp_path, JobSettings(device="cpu"))
    assert plan.fits
    check_plan(probe(plan.source), plan, overwrite=False)
