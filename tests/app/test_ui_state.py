from __future__ import annotations

from pathlib import Path

from app.ui_state import UiState
from engine.settings.schema import JobSettings


def test_choices_are_kept_but_not_what_belongs_to_one_film(tmp_path: Path) -> None:
    state = UiState(tmp_path / "window.ini")
    state.choices = JobSettings(scale=4, crf=20, start="3", overwrite=True)
    state.language, state.theme = "zh_CN", "light"
    state.save()
    again = UiState(tmp_path / "window.ini")
    assert again.choices == JobSettings(scale=4, crf=20)
    assert (again.language, again.theme) == ("zh_CN", "light")


def test_a_file_of_another_version_gives_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "window.ini"
    path.write_text('[General]\nchoices="{\\"crf\\": 99, \\"gone\\": 1}"\n', encoding="utf-8")
    assert UiState(path).choices == JobSettings()
