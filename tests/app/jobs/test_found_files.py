from __future__ import annotations

from pathlib import Path

from pytestqt.qtbot import QtBot

from app.jobs.found_files import FileFinder, media_files


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def test_of_a_folder_only_films_are_taken(tmp_path: Path) -> None:
    touch(tmp_path, "b.mkv", "a.MP4", "notes.txt", ".hidden.mp4", "inner/c.mov", "cover.jpg")
    names = [path.name for path in media_files([tmp_path])]
    assert names == ["a.MP4", "b.mkv", "c.mov"]


def test_numbered_pictures_are_one_film(tmp_path: Path) -> None:
    touch(tmp_path, *(f"shot_{n:04d}.png" for n in range(5)))
    assert media_files([tmp_path]) == [tmp_path]


def test_single_pictures_are_taken_each(tmp_path: Path) -> None:
    touch(tmp_path, "cat.png", "dog.png")
    assert [path.name for path in media_files([tmp_path])] == ["cat.png", "dog.png"]


def test_a_file_is_left_to_the_engine_whatever_its_name(tmp_path: Path) -> None:
    touch(tmp_path, "letter.docx")
    assert media_files([tmp_path / "letter.docx"]) == [tmp_path / "letter.docx"]


def test_a_folder_is_looked_through_in_another_thread(tmp_path: Path, qtbot: QtBot) -> None:
    touch(tmp_path, "a.mp4")
    finder = FileFinder()
    with qtbot.waitSignal(finder.found, timeout=3000) as heard:
        finder.look_through([tmp_path])
    assert heard.args == [[tmp_path / "a.mp4"]]
