from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.errors import EngineError
from engine.hardware import budget, devices
from engine.hardware.gpu_table import named
from engine.jobs.services import PresetService
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.settings import preset_store
from engine.settings.schema import JobSettings
from tests.helpers.jobs import running_engine


@pytest.fixture
def service() -> PresetService:
    return PresetService(named("RTX 5070 Ti"))


def titles(event: e.Event) -> list[str]:
    assert isinstance(event, e.PresetsListed)
    return [preset.title for preset in event.presets]


def test_presets_are_named_for_the_card(service: PresetService) -> None:
    (said,) = service.answer(c.ListPresets())
    assert isinstance(said, e.PresetsListed)
    assert said.card == "RTX 5070 Ti, 16 GB"
    assert titles(said)[2] == "RTX 5070 Ti, 16 GB: Best"


def test_a_gpu_of_no_table_is_named_as_the_driver_does(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = devices.Gpu(
        name="NVIDIA RTX A4000",
        total_bytes=16376 * 2**20,
        free_bytes=2**33,
        driver="580.1",
        capability=(8, 6),
    )
    monkeypatch.setattr(budget, "_torch_has_cuda", lambda: True)
    for gpus, card, title in (
        ((gpu,), "NVIDIA RTX A4000, 16 GB", "NVIDIA RTX A4000, 16 GB: Fast"),
        ((), "", "Processor: Fast"),
    ):
        monkeypatch.setattr(devices, "gpus", lambda found=gpus: found)
        (said,) = PresetService(None).answer(c.ListPresets())
        assert isinstance(said, e.PresetsListed)
        assert said.card == card
        assert titles(said)[0] == title


def test_saving_exporting_removing_and_importing(service: PresetService, tmp_path: Path) -> None:
    file = tmp_path / "given.toml"
    (said,) = service.answer(c.SavePreset(title="Mine", settings=JobSettings(crf=20)))
    assert titles(said)[3:] == ["Mine"]
    assert service.answer(c.ExportPreset(name="mine", path=file)) == ()
    (said,) = service.answer(c.RemovePreset(name="mine"))
    assert len(titles(said)) == 3
    (said,) = service.answer(c.ImportPreset(path=file))
    assert titles(said)[3:] == ["Mine"]
    service.answer(c.RemovePreset(name="mine"))
    service.answer(c.ExportPreset(name="best", path=tmp_path / "best.toml"))  # the program's own
    (said,) = service.answer(c.ImportPreset(path=tmp_path / "best.toml"))
    assert titles(said)[3:] == ["RTX 5070 Ti, 16 GB: Best"]


def test_failures_are_told(service: PresetService, tmp_path: Path) -> None:
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


def test_a_damaged_file_is_told_when_asked_for_the_list(service: PresetService) -> None:
    preset_store.folder().mkdir(parents=True)
    (preset_store.folder() / "bad.toml").write_text("title =", encoding="utf-8")
    listed, failed = service.answer(c.ListPresets())
    assert len(titles(listed)) == 3
    assert isinstance(failed, e.TaskFailed)
    assert "bad.toml" in failed.error.message
    said = service.answer(c.SavePreset(title="Mine", settings=JobSettings()))
    assert len(said) == 1  # told once, not at every change
