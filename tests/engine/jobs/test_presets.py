from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import api
from engine.api import Engine
from engine.core.errors import EngineError
from engine.hardware import budget, devices
from engine.hardware.gpu_table import named
from engine.jobs.services import PresetService
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.settings import presets
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.clips import Clip, make_clip
from tests.helpers.jobs import ENDS, Listener, running_engine


@pytest.fixture
def service() -> PresetService:
    return PresetService((named("RTX 5070 Ti"),))


def titles(event: e.Event) -> list[str]:
    assert isinstance(event, e.PresetsListed)
    return [preset.title for preset in event.presets]


def test_a_gpu_of_no_table_is_named_as_the_driver_does(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = devices.Gpu(
        name="NVIDIA RTX A4000",
        total_bytes=16376 * 2**20,
        free_bytes=2**33,
        driver="580.1",
        capability=(8, 6),
    )
    monkeypatch.setattr(budget, "torch_has_cuda", lambda: True)
    for gpus, name, title in (
        ((gpu,), "NVIDIA RTX A4000, 16 GB", "NVIDIA RTX A4000, 16 GB: Fast"),
        ((), "", "CPU: Fast"),
    ):
        monkeypatch.setattr(devices, "gpus", lambda found=gpus: found)
        (said,) = PresetService().answer(c.ListPresets())
        assert said.card == name
        assert titles(said)[0] == title


def test_saving_exporting_removing_and_importing(service: PresetService, tmp_path: Path) -> None:
    (listed,) = service.answer(c.ListPresets())
    assert (listed.card, titles(listed)[2]) == ("RTX 5070 Ti, 16 GB", "RTX 5070 Ti, 16 GB: Best")
    file = tmp_path / "given.toml"
    (said,) = service.answer(c.SavePreset(title="Mine", settings=JobSettings(crf=20)))
    assert titles(said)[3:] == ["Mine"]
    assert service.answer(c.ExportPreset(name="mine", path=file)) == ()
    (said,) = service.answer(c.RemovePreset(name="mine"))
    assert len(titles(said)) == 3
    (said,) = service.answer(c.ImportPreset(path=file))
    assert titles(said)[3:] == ["Mine"]
    service.answer(c.RemovePreset(name="mine"))
    service.answer(c.ExportPreset(name="best", path=file))  # the program's own
    (said,) = service.answer(c.ImportPreset(path=file))
    assert titles(said)[3:] == ["RTX 5070 Ti, 16 GB: Best"]


def test_failures_are_reported(service: PresetService, tmp_path: Path) -> None:
    for command in (
        c.SavePreset(title="Best", settings=JobSettings()),
        c.RemovePreset(name="best"),
        c.ExportPreset(name="none", path=Path("x.toml")),
        c.ImportPreset(path=Path("there-is-none.toml")),
    ):
        with pytest.raises(EngineError):
            service.answer(command)
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.RemovePreset(name="best"))
        assert heard.wait(e.TaskFailed).kind == "preset"


def test_a_damaged_file_is_reported_when_asked_for_the_list(service: PresetService) -> None:
    presets.folder().mkdir(parents=True)
    (presets.folder() / "bad.toml").write_text("title =", encoding="utf-8")
    listed, failed = service.answer(c.ListPresets())
    assert len(titles(listed)) == 3
    assert isinstance(failed, e.TaskFailed)
    assert "bad.toml" in failed.error.message
    said = service.answer(c.SavePreset(title="Mine", settings=JobSettings()))
    assert len(said) == 1  # reported once, not at every change


@pytest.fixture
def engine(tmp_path: Path, heard: Listener) -> Iterator[Engine]:
    gpu = api.pretended("RTX 5070 Ti", memory="12 GB")
    settings = EngineSettings(threads=2)
    made = Engine(heard, settings=settings, jobs_folder=tmp_path / "jobs", pretend=gpu)
    made.start()
    yield made
    assert made.close(timeout_s=60)


def test_plans_are_for_the_gpu_and_a_start_is_refused(
    engine: Engine, heard: Listener, tmp_path: Path
) -> None:
    film = make_clip(tmp_path / "film.mkv", Clip(frames=3))
    engine.send(c.AddJob(job_id="a", source=film))
    plan = heard.wait(e.PlanChosen).plan
    assert (plan.card, plan.is_pretended, plan.fits) == ("RTX 5070 Ti, 12 GB", True, False)
    assert plan.work.device == "cuda"
    assert plan.device_limit_bytes == pytest.approx(12 * 2**30 - 1860 * 2**20)
    engine.send(c.StartQueue())
    ended = heard.failed_job()
    assert ended.error.code == "pretended-card"
    assert "RTX 5070 Ti" in ended.error.message
    assert [path.name for path in tmp_path.glob("film*")] == ["film.mkv"]
    engine.send(c.AddJob(job_id="b", source=film, settings=JobSettings(device="cpu")))
    assert isinstance(heard.wait(*ENDS), e.JobFinished), "the processor's work is done"


def test_presets_are_those_of_the_gpu(engine: Engine, heard: Listener) -> None:
    engine.send(c.ListPresets())
    listed = heard.wait(e.PresetsListed)
    assert (listed.card, listed.presets[0].tier) == ("RTX 5070 Ti, 12 GB", "gpu")
