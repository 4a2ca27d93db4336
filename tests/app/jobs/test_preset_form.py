from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QComboBox
from pytestqt.qtbot import QtBot

from app.controllers.settings import PresetsController, file_name
from app.jobs.preset_form import PresetForm
from engine.protocol import commands
from engine.protocol.tasks import TaskKind
from engine.settings.presets import Preset
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench
from tests.helpers.fake_states import PRESET_CARD, make_presets


def box(bench: Bench) -> QComboBox:
    found = bench.find("preset")
    assert isinstance(found, QComboBox)
    return found


def choose(bench: Bench, text: str) -> None:
    control = box(bench)
    at = control.findText(text)
    assert at >= 0, text
    control.setCurrentIndex(at)
    control.activated.emit(at)
    bench.hear()


def order(bench: Bench, what: str) -> None:
    action = bench.window.findChild(QAction, f"preset-{what}")
    assert action is not None
    action.trigger()
    bench.hear()


def link(bench: Bench) -> PresetsController:
    found = bench.window.findChild(PresetsController)
    assert found is not None
    return found


def test_the_list_is_asked_for_at_the_start_and_named_for_the_card(bench: Bench) -> None:
    assert bench.engine.asked(commands.ListPresets)
    assert bench.find("presetFor").whole == f"for {PRESET_CARD}"
    shown = [box(bench).itemText(at) for at in range(box(bench).count())]
    assert shown == ["Own choice", "Fast", "Balanced", "Best"]


def test_a_preset_changes_what_it_names_and_nothing_else(bench: Bench) -> None:
    job_id = bench.add()
    bench.window.choices.choose({"crf": 20})
    choose(bench, "Best")
    (*_, last) = bench.engine.asked(commands.ChangeJob)
    assert last.job_id == job_id
    assert last.settings == JobSettings(model="seedvr2-7b-sharp", precision="q4", crf=20)
    assert box(bench).currentText() == "Best"
    assert box(bench).findText("Own choice") < 0
    assert box(bench).toolTip() == "What best means."


def test_another_choice_makes_it_ones_own(bench: Bench) -> None:
    bench.add()
    choose(bench, "Best")
    bench.window.choices.choose({"precision": "fp16"})
    assert box(bench).currentText() == "Own choice"
    bench.window.choices.choose({"precision": "q4"})
    assert box(bench).currentText() == "Best"


def test_a_vae_of_ones_own_stays_with_its_family(bench: Bench) -> None:
    bench.add()
    bench.window.choices.choose({"model": "wan-2x", "vae": "mine.safetensors"})
    choose(bench, "Best")
    assert bench.window.choices.settings.vae == ""


def test_no_presets_no_selector(qtbot: QtBot) -> None:
    form = PresetForm()
    qtbot.addWidget(form)
    assert form.isHidden()
    form.show_presets(make_presets(), "")
    assert not form.isHidden()


def test_choices_are_kept_under_a_title(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PresetsController, "ask_title", lambda *_: "Tapes")
    bench.window.choices.choose({"crf": 20})
    order(bench, "save")
    (saved,) = bench.engine.asked(commands.SavePreset)
    assert (saved.title, saved.settings.crf) == ("Tapes", 20)
    assert box(bench).currentText() == "Tapes"


def test_a_title_that_is_taken_is_replaced_only_when_asked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PresetsController, "ask_title", lambda *_: "Tapes")
    order(bench, "save")
    monkeypatch.setattr(PresetsController, "confirm", lambda *_: False)
    order(bench, "save")
    assert len(bench.engine.asked(commands.SavePreset)) == 1
    monkeypatch.setattr(PresetsController, "confirm", lambda *_: True)
    order(bench, "save")
    assert [c.name for c in bench.engine.asked(commands.RemovePreset)] == ["tapes"]
    assert len(bench.engine.asked(commands.SavePreset)) == 2


def test_only_presets_of_ones_own_can_be_deleted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add()
    choose(bench, "Best")
    remove = bench.window.findChild(QAction, "preset-remove")
    assert not remove.isEnabled()
    monkeypatch.setattr(PresetsController, "ask_title", lambda *_: "Tapes")
    bench.window.choices.choose({"crf": 21})
    order(bench, "save")
    assert remove.isEnabled()
    monkeypatch.setattr(PresetsController, "confirm", lambda *_: True)
    order(bench, "remove")
    assert box(bench).findText("Tapes") < 0


def test_a_preset_is_given_away_and_a_bad_one_is_refused_in_words(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench.add()
    choose(bench, "Fast")
    monkeypatch.setattr(PresetsController, "ask_file", lambda *_: tmp_path / "p.toml")
    order(bench, "export")
    (told,) = bench.engine.asked(commands.ExportPreset)
    assert (told.name, told.path) == ("fast", tmp_path / "p.toml")
    order(bench, "import")
    assert bench.find("presetProblem").isVisible()
    choose(bench, "Best")
    assert not bench.find("presetProblem").isVisible()


def test_a_preset_of_another_version_is_not_taken_in_part(bench: Bench) -> None:
    bench.add()
    old = Preset(name="old", title="Old", changes={"crf": 20, "gone": 1}, is_own=True)
    bench.engine.tasks.presets = (*make_presets(), old)
    bench.engine.tasks.list(TaskKind.PRESET)
    bench.hear()
    choose(bench, "Old")
    assert bench.find("presetProblem").isVisible()
    assert bench.window.choices.settings == JobSettings()
    assert box(bench).currentText() == "Own choice"


def test_a_film_that_was_started_keeps_its_choices(bench: Bench) -> None:
    bench.add()
    bench.do("start")
    assert not box(bench).isEnabled()


def test_file_names_hold_what_every_disk_takes() -> None:
    own = Preset(name="x", title="VHS: Oma/Opa", is_own=True)
    assert file_name(own) == "VHS- Oma-Opa"
    assert file_name(make_presets()[0]) == "16gb Fast"
