"""What Explorer is started with."""

from __future__ import annotations

from pathlib import PureWindowsPath

import pytest

from app.desktop.windows_rules import command_for

WINDOWS = PureWindowsPath("C:\\Windows")
EXPLORER = '"C:\\Windows\\explorer.exe"'


@pytest.mark.parametrize(
    ("file", "marked"),
    [
        ("C:\\My films, 2026\\a & b.mp4", "C:\\My films, 2026\\a & b.mp4"),
        ("\\\\nas\\films\\片段.mkv", "\\\\nas\\films\\片段.mkv"),
        ("\\\\?\\C:\\films\\a.mp4", "C:\\films\\a.mp4"),
        ("\\\\?\\UNC\\nas\\films\\a.mp4", "\\\\nas\\films\\a.mp4"),
    ],
)
def test_a_file_is_marked_by_its_ordinary_path(file: str, marked: str) -> None:
    assert command_for(PureWindowsPath(file), WINDOWS) == f'{EXPLORER} /select,"{marked}"'


def test_of_a_path_too_long_for_explorer_the_nearest_folder_opens() -> None:
    folder = PureWindowsPath("C:\\films", "a" * 200)
    file = PureWindowsPath(f"\\\\?\\{folder}", "b" * 100, "film.mp4")
    assert command_for(file, WINDOWS) == f'{EXPLORER} "{folder}"'
