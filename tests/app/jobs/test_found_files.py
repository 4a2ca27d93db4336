from pathlib import Path

from app.jobs.found_files import FileFinder, media_files


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def test_of_a_folder_only_films_are_taken(tmp_path, qtbot):
    touch(tmp_path, "b.mkv", "a.MP4", "notes.txt", ".hidden.mp4", "inner/c.mov", "cover.jpg")
    finder = FileFinder()
    with qtbot.waitSignal(finder.found, timeout=3000) as heard:
        finder.look_through([tmp_path])  # in another thread
    (found,) = heard.args
    assert found == media_files([tmp_path])
    assert [path.name for path in found] == ["a.MP4", "b.mkv", "c.mov"]


def test_numbered_pictures_are_one_film_and_single_ones_are_taken_each(tmp_path):
    touch(tmp_path / "film", *(f"shot_{n:04d}.png" for n in range(5)))
    assert media_files([tmp_path / "film"]) == [tmp_path / "film"]
    touch(tmp_path / "pets", "cat.png", "dog.png")
    assert [path.name for path in media_files([tmp_path / "pets"])] == ["cat.png", "dog.png"]
    touch(tmp_path, "letter.docx")
    assert media_files([tmp_path / "letter.docx"]) == [tmp_path / "letter.docx"]
