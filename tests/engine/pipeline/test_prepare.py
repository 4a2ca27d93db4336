from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.cli.formatting import plan_words
from engine.core import paths
from engine.core.errors import FeatureMissing, PretendedGpu, WeightsMissing
from engine.core.geometry import Size
from engine.farm.errors import IdentityDamaged
from engine.hardware import budget, devices
from engine.hardware.gpu_table import named
from engine.models.copy.family import CopyPlan
from engine.pipeline import prepare
from engine.pipeline.prepare import Machine, check_plan, make_plan, probe_source, taken_up
from engine.protocol.plan import WorkerPlan
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.read.probe import probe
from tests.helpers.clips import make_clip, make_picture, make_pictures
from tests.helpers.plans import a_plan

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


def test_a_part_between_two_frames_is_refused_in_its_plan(tmp_path: Path) -> None:
    film = probe(make_clip(tmp_path / "film.mkv", frames=10))
    for stop, codes in (("0.06", ["unreadable-media"]), ("0.09", [])):
        settings = JobSettings(model="none", start="0.05", stop=stop)
        plan = make_plan(film, settings, tmp_path / "out.mkv", machine(tmp_path))
        assert [one.code for one in plan.notices if one.severity == "refusal"] == codes


def test_of_a_folder_that_is_not_there_no_disk_is_known(tmp_path: Path) -> None:
    film = probe(make_clip(tmp_path / "film.mkv", frames=3))
    away = tmp_path / "away"
    chosen = replace(machine(tmp_path), settings=EngineSettings(output_folder=str(away)))
    for output, where in ((away / "a.mkv", machine(tmp_path)), (None, chosen)):
        plan = make_plan(film, COPY, output, where)
        assert [one.code for one in plan.notices if "disk" in one.code] == []
        assert "output-unwritable" in [one.code for one in plan.notices]
        assert plan.free_disk_bytes is None
        assert "free" not in "\n".join(plan_words(plan))
    assert make_plan(film, COPY, tmp_path / "a.mkv", chosen).free_disk_bytes


def test_paths_become_openable_on_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands for Windows' long form: what no call can open becomes what every call can."""
    real, meant = tmp_path / "real", tmp_path / "meant"
    real.mkdir()
    make_clip(real / "film.mkv", frames=3)
    monkeypatch.setattr(
        paths, "openable", lambda path: Path(str(path).replace(str(meant), str(real)))
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


def test_a_gpu_that_lacks_its_runtime_does_not_start_and_names_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = devices.Gpu(
        name="NVIDIA GeForce RTX 5070 Ti",
        total_bytes=2**34,
        free_bytes=2**34,
        driver="581.29",
        capability=(12, 0),
    )
    monkeypatch.setattr(devices, "gpus", lambda: (gpu,))
    monkeypatch.setattr(budget, "torch_has_cuda", lambda: False)
    needed = budget.NeededRuntime(id="cu130", bytes=10**9)
    media = probe(make_clip(tmp_path / "film.mkv", frames=3))
    assert make_plan(media, JobSettings(), None, machine(tmp_path)).work.model == "lite-plus"
    monkeypatch.setattr(prepare, "needed_runtime", lambda: needed)
    plan = make_plan(media, JobSettings(), None, machine(tmp_path))
    assert (plan.work.device, plan.card) == ("cuda", "RTX 5070 Ti, 16 GB")
    with pytest.raises(WeightsMissing) as caught:
        check_plan(media, plan, overwrite=False)
    for command in ("runtime install", "models download seedvr2-7b-sharp-int8", 'model="lite"'):
        assert command in caught.value.hint
    check_plan(
        media, make_plan(media, JobSettings(model="lite"), None, machine(tmp_path)), overwrite=False
    )


def test_a_start_keeps_the_model_that_the_user_saw() -> None:
    for model, planned, started in (
        ("auto", "seedvr2-3b", "seedvr2-3b"),
        ("auto", "none", "auto"),
        ("lite", "none", "lite"),
    ):
        plan = a_plan(work=CopyPlan(model=planned, frame=Size(64, 48), tile=Size(64, 48)))
        assert prepare.with_model_of(JobSettings(model=model), plan).model == started


def test_a_plan_for_a_pretended_card_starts_only_on_the_processor(tmp_path: Path) -> None:
    media = probe(make_clip(tmp_path / "film.mkv", frames=3))
    pretending = machine(tmp_path, pretend=(named("RTX 5070 Ti"),))
    plan = make_plan(media, JobSettings(model="lite"), None, pretending)
    assert (plan.is_pretended, plan.card) == (True, "RTX 5070 Ti, 16 GB")
    assert [n.code for n in plan.notices if n.severity == "refusal"] == ["pretended-card"]
    with pytest.raises(PretendedGpu, match="RTX 5070 Ti"):
        check_plan(media, plan, overwrite=False)
    plan = make_plan(media, JobSettings(device="cpu"), None, pretending)
    assert plan.fits
    check_plan(media, plan, overwrite=False)


def test_an_interrupted_job_keeps_its_gpu_and_gets_another_where_that_is_gone(
    tmp_path: Path,
) -> None:
    media = probe(make_clip(tmp_path / "film.mkv", frames=3))
    both = machine(tmp_path, pretend=(named("RTX 3060"), named("RTX 5070 Ti")))
    about = media, JobSettings(device="3060"), None
    begun = make_plan(*about, both)
    assert (begun.gpu, begun.card) == ("NVIDIA GeForce RTX 3060", "RTX 3060, 12 GB")
    assert taken_up(*about, begun, both) == begun
    one = machine(tmp_path, pretend=both.pretend[1:])
    for settings in (about[1], JobSettings()):  # chosen by the user, or automatically
        plan = taken_up(media, settings, None, begun, one)
        assert plan.card == "RTX 5070 Ti, 16 GB"
        (notice,) = (notice for notice in plan.notices if notice.code == "gpu-gone")
        assert notice.severity == "warning"
        assert "NVIDIA GeForce RTX 3060" in notice.message
    none = taken_up(*about, begun, machine(tmp_path))
    assert (none.work.device, none.fits) == ("cpu", True)
    assert "The CPU" in next(n.message for n in none.notices if n.code == "gpu-gone")


def test_an_interrupted_job_of_several_gpus_goes_on_with_those_that_are_left(
    tmp_path: Path,
) -> None:
    media = probe(make_clip(tmp_path / "film.mkv", frames=60))
    names = ("RTX 4090", "RTX 4080", "RTX 4090")
    three = machine(tmp_path, pretend=tuple(map(named, names)))
    settings = JobSettings(device="all", model="seedvr2-3b", segment_seconds=0.5)
    begun = make_plan(media, settings, None, three)
    workers = tuple(WorkerPlan(gpu=spec.name, card=spec.title) for spec in three.pretend[:2])
    begun = replace(begun, workers=workers, gpu=workers[0].gpu, card=workers[0].card)
    two, one = (replace(three, pretend=three.pretend[:count]) for count in (2, 1))
    assert taken_up(media, settings, None, begun, two) == begun
    plan = taken_up(media, settings, None, begun, one)
    assert (plan.work, plan.workers, plan.gpu) == (begun.work, (), workers[0].gpu)
    (notice,) = (n for n in plan.notices if n.case == "gone")
    assert "RTX 4080, 16 GB" in notice.message
    plan = taken_up(media, settings, None, begun, replace(three, pretend=three.pretend[1:2]))
    assert (plan.gpu, plan.card) == (workers[1].gpu, workers[1].card)
    plan = taken_up(media, settings, None, begun, machine(tmp_path))
    assert plan.work.device == "cpu"
    assert [n for n in plan.notices if n.code == "gpu-gone"]


def test_what_can_be_carried_out_no_more_is_refused_before_a_job_goes_on(tmp_path: Path) -> None:
    media = probe(make_clip(tmp_path / "film.mkv", frames=3))
    here, settings = machine(tmp_path), JobSettings(model="lite")
    begun = make_plan(media, settings, None, here)
    settings = JobSettings(model="lite", switches="run.tf32=on")
    with pytest.raises(FeatureMissing, match=r"run\.tf32=on"):
        check_plan(media, taken_up(media, settings, None, begun, here), overwrite=False)


def test_a_damaged_list_of_paired_computers_keeps_those_plans_only_that_need_it(
    tmp_path: Path,
) -> None:
    damaged = paths.data_folder() / "farm" / "machines.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("[1]")
    media = probe(make_clip(tmp_path / "film.mkv", frames=3))
    assert make_plan(media, COPY, None, machine(tmp_path)).fits
    with pytest.raises(IdentityDamaged):
        make_plan(media, replace(COPY, machines="all"), None, machine(tmp_path))
