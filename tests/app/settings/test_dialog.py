from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QSpinBox

from app.settings.dialog import SettingsDialog
from app.ui_state import UiState
from engine.protocol import commands
from engine.settings import schema
from engine.settings.schema import EngineSettings
from tests.app.conftest import Bench


def dialog(bench: Bench) -> SettingsDialog:
    bench.do("settings")
    return bench.program.settings.dialog


def test_every_setting_of_the_program_has_a_row(bench: Bench) -> None:
    shown = dialog(bench)
    assert list(shown.editors) == list(schema.describe(EngineSettings))
    assert all(editor.isVisible() for editor in shown.editors.values())


def test_a_change_is_stored_sent_to_the_engine_and_planned_with(bench: Bench) -> None:
    job_id = bench.add()
    dialog(bench).editors["preserve_vram"].control.click()
    bench.hear()
    (sent,) = bench.engine.asked(commands.ChangeEngine)
    assert sent.settings == EngineSettings(preserve_vram=True)
    assert bench.program.ui_state.engine_settings == sent.settings
    assert [c.job_id for c in bench.engine.asked(commands.ChangeJob)] == [job_id]


def test_defaults_can_be_restored(bench: Bench) -> None:
    shown = dialog(bench)
    threads = shown.editors["threads"].control
    assert isinstance(threads, QSpinBox)
    threads.setValue(3)
    assert shown.settings.threads == 3
    shown.findChild(type(bench.button("primaryAction")), "defaultSettings").click()
    assert shown.settings == EngineSettings()
    assert threads.value() == 0


def test_unreadable_settings_become_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "window.ini"
    path.write_text('[General]\nengine="{\\"threads\\": -4}"\n', encoding="utf-8")
    assert UiState(path).engine_settings == EngineSettings()
