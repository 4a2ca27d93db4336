from pathlib import Path

import pytest
from PySide6.QtCore import QSettings

from app.ui_state import UiState
from engine.protocol import commands
from engine.settings import schema
from engine.settings.schema import EngineSettings, JobSettings
from tests.app.conftest import part


def test_every_setting_has_a_row_its_change_is_planned_with_and_its_default_restored(bench):
    bench.do("settings")
    shown = bench.program.settings.dialog
    assert list(shown.editors) == list(schema.describe(EngineSettings))
    assert all(editor.isVisible() for editor in shown.editors.values())
    job_id = bench.add()
    shown.editors["tile_previews"].control.click()
    bench.hear()
    (sent,) = bench.asked(commands.ChangeEngine)
    assert sent.settings == EngineSettings(tile_previews=False)
    assert bench.program.ui_state.engine_settings == sent.settings
    assert [c.job_id for c in bench.asked(commands.ChangeJob)] == [job_id]
    threads = shown.editors["threads"].control
    threads.setValue(3)
    assert shown.settings.threads == 3
    part(shown, "defaultSettings").click()
    assert shown.settings == EngineSettings()
    assert threads.value() == 0


def test_why_a_folder_is_not_taken_is_said_in_its_row(bench, tmp_path):
    bench.do("settings")
    shown = bench.program.settings.dialog
    field, reason = part(shown, "setting-watch_folder"), part(shown, "reason-watch_folder")
    assert not reason.isVisible()
    field.setText(str(tmp_path / "nothing"))
    field.editingFinished.emit()
    assert (reason.isVisible(), reason.text()) == (True, "Folder not found.")
    field.setText(str(tmp_path))
    field.editingFinished.emit()
    assert not reason.isVisible()
    assert shown.settings.watch_folder == str(tmp_path)


def test_choices_are_kept_without_those_of_one_film_and_of_another_version(tmp_path):
    state = UiState(tmp_path / "window.ini")
    state.choices = JobSettings(scale=4, crf=20, start="3", overwrite=True)
    state.language, state.theme = "zh_CN", "light"
    state.save()
    again = UiState(tmp_path / "window.ini")
    assert again.choices == JobSettings(scale=4, crf=20)
    assert (again.language, again.theme) == ("zh_CN", "light")
    path = tmp_path / "other.ini"
    lines = 'choices="{\\"crf\\": 99, \\"gone\\": 1}"\nengine="{\\"threads\\": -4}"\n'
    path.write_text(f"[General]\n{lines}", encoding="utf-8")
    assert UiState(path).choices == JobSettings()
    assert UiState(path).engine_settings == EngineSettings()


@pytest.mark.parametrize("text", ["[]", "[" * 9999, '{"crf": NaN}', '{"threads": 1e400}', '"a"'])
def test_damaged_choices_do_not_stop_the_window(tmp_path: Path, text: str) -> None:
    path = tmp_path / "window.ini"
    store = QSettings(str(path), QSettings.Format.IniFormat)
    for key in ("choices", "engine", "runtime_hidden"):
        store.setValue(key, text)
    store.sync()
    state = UiState(path)
    assert (state.choices, state.engine_settings) == (JobSettings(), EngineSettings())
    assert state.runtime_hidden == ()


def test_switches_end_where_fields_end(bench):
    bench.do("settings")
    editors = bench.program.settings.dialog.editors
    assert len({one.mapToGlobal(one.rect().topRight()).x() for one in editors.values()}) == 1
