from __future__ import annotations

from pathlib import Path

import pytest

from engine.hardware import budget, devices
from engine.hardware.gpu_table import named
from engine.jobs.preset_service import PresetDesk
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.settings import preset_store
from engine.settings.schema import JobSettings


class Sink:
    def __init__(self) -> None:
        self.events: list[e.Event] = []

    def emit(self, event: e.Event) -> None:
        self.events.append(event)

    def take(self) -> list[e.Event]:
        taken, self.events = self.events, []
        return taken


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sink:
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path / "data"))
    return Sink()


@pytest.fixture
def desk(sink: Sink) -> PresetDesk:
    return PresetDesk(sink, named("RTX 5070 Ti"))


def titles(event: e.Event) -> list[str]:
    assert isinstance(event, e.PresetsListed)
    return [preset.title for preset in event.presets]


def test_presets_are_named_for_the_card(sink: Sink, desk: PresetDesk) -> None:
    desk.answer(c.ListPresets())
    (said,) = sink.take()
    assert isinstance(said, e.PresetsListed)
    assert said.card == "RTX 5070 Ti, 16 GB"
    assert titles(said)[2] == "RTX 5070 Ti, 16 GB: Best"


def test_without_a_card_that_can_be_used_there_is_none(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "gpus", tuple)
    PresetDesk(sink, None).answer(c.ListPresets())
    (said,) = sink.take()
    assert isinstance(said, e.PresetsListed)
    assert said.card == ""
    assert titles(said)[0] == "Processor: Fast"


def test_a_card_of_no_table_is_called_as_the_driver_does(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = devices.Gpu(
        name="NVIDIA RTX A4000",
        total_bytes=16376 * 2**20,
        free_bytes=2**33,
        driver="580.1",
        capability=(8, 6),
    )
    monkeypatch.setattr(devices, "gpus", lambda: (gpu,))
    monkeypatch.setattr(budget, "_torch_has_cuda", lambda: True)
    PresetDesk(sink, None).answer(c.ListPresets())
    (said,) = sink.take()
    assert isinstance(said, e.PresetsListed)
    assert said.card == "NVIDIA RTX A4000, 16 GB"
    assert said.presets[0].tier == "16gb"


def test_saving_exporting_removing_and_importing(
    sink: Sink, desk: PresetDesk, tmp_path: Path
) -> None:
    file = tmp_path / "given.toml"
    desk.answer(c.SavePreset(title="Mine", settings=JobSettings(crf=20)))
    assert titles(sink.take()[0])[3:] == ["Mine"]
    desk.answer(c.ExportPreset(name="mine", path=file))
    assert sink.take() == []
    desk.answer(c.RemovePreset(name="mine"))
    assert len(titles(sink.take()[0])) == 3
    desk.answer(c.ImportPreset(path=file))
    assert titles(sink.take()[0])[3:] == ["Mine"]


def test_a_preset_of_the_program_can_be_given_away_and_taken(
    sink: Sink, desk: PresetDesk, tmp_path: Path
) -> None:
    desk.answer(c.ExportPreset(name="best", path=tmp_path / "best.toml"))
    desk.answer(c.ImportPreset(path=tmp_path / "best.toml"))
    (said,) = sink.take()
    assert titles(said)[3:] == ["RTX 5070 Ti, 16 GB: Best"]


@pytest.mark.parametrize(
    "command",
    [
        c.SavePreset(title="Best", settings=JobSettings()),
        c.RemovePreset(name="best"),
        c.ExportPreset(name="none", path=Path("x.toml")),
        c.ImportPreset(path=Path("there-is-none.toml")),
    ],
)
def test_a_failure_is_said(sink: Sink, desk: PresetDesk, command: c.Command) -> None:
    desk.answer(command)
    (said,) = sink.take()
    assert isinstance(said, e.PresetFailed)
    assert said.error.message


def test_a_damaged_file_is_told_when_asked_for_the_list(sink: Sink, desk: PresetDesk) -> None:
    preset_store.folder().mkdir(parents=True)
    (preset_store.folder() / "bad.toml").write_text("title =", encoding="utf-8")
    desk.answer(c.ListPresets())
    listed, failed = sink.take()
    assert len(titles(listed)) == 3
    assert isinstance(failed, e.PresetFailed)
    assert "bad.toml" in failed.error.message
    desk.answer(c.SavePreset(title="Mine", settings=JobSettings()))
    assert len(sink.take()) == 1  # said once, not at every change
