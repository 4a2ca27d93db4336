from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.jobs import found_files
from app.jobs.found_files import (
    NO_MEDIA,
    PICTURES,
    QUEUED,
    RESULTS,
    TOO_MANY,
    FileFinder,
    drop_texts,
    media_files,
)
from engine.jobs import made_results
from tests.app.conftest import dropped, part, texts


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
    assert [path.name for path in found.files] == ["a.MP4", "b.mkv", "c.mov"]
    names = {why: [path.name for path in files] for why, files in found.skipped.items()}
    assert names == {NO_MEDIA: ["notes.txt"], PICTURES: ["cover.jpg"]}


def test_what_a_folder_added_and_what_not_is_said_with_the_reasons(bench, qtbot, tmp_path):
    folder = tmp_path / "films"
    touch(folder, "b.mkv", "a.mp4", "notes.txt", "cover.jpg", "inner/c.mov", "inner/d.srt")
    with qtbot.waitSignal(bench.program.controller.looked_through, timeout=3000):
        bench.window.intake.take_drop(dropped(folder))
    bench.hear()
    line = bench.find("addedLine")
    assert "3 added, 3 skipped" in texts(line)
    assert "not a video or image" not in texts(line)
    seen = [one for one in line.findChildren(QWidget) if one.isVisible() and not one.children()]
    middles = [one.mapTo(line, one.rect().center()).y() for one in seen]
    assert max(middles) - min(middles) <= 2, "icon, text, arrow and cross stand in one line"
    QTest.mouseClick(part(line, "noticeHead"), Qt.MouseButton.LeftButton)
    assert "not a video or image: 2\nimages in a folder of videos: 1" in texts(line)
    bench.use_language("zh_CN")
    assert "已添加 3 个，跳过 3 个" in texts(line)
    bench.press("closeAdded")
    assert not line.isVisible()
    bench.program.controller.add_paths([folder / "b.mkv"])
    assert not line.isVisible(), "nothing was left out"


def test_a_folder_without_a_film_is_named(bench, qtbot, tmp_path):
    (tmp_path / "empty").mkdir()
    touch(tmp_path / "papers", "notes.txt")
    touch(tmp_path / "films", "a.mkv")
    line = bench.find("addedLine")
    for names, head, below in (
        (["empty"], "No videos found in empty", ""),
        (["papers"], "No videos found in papers", "not a video or image: 1"),
        (["empty", "papers"], "No videos found in 2 folders", "not a video or image: 1"),
        (["films", "empty"], "1 added, 0 skipped", "No videos found in empty"),
    ):
        with qtbot.waitSignal(bench.program.controller.looked_through, timeout=3000):
            bench.window.intake.take_drop(dropped(*(tmp_path / name for name in names)))
        bench.hear()
        assert line.isVisible()
        assert head in texts(line)
        if below:
            QTest.mouseClick(part(line, "noticeHead"), Qt.MouseButton.LeftButton)
        assert below in texts(line)


def test_of_a_folder_that_holds_too_many_the_rest_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(found_files, "MOST_FILES", 2)
    touch(tmp_path, "a.mkv", "b.mkv", "c.mkv")
    found = media_files([tmp_path])
    assert (len(found.files), len(found.skipped[TOO_MANY])) == (2, 1)


def test_numbered_pictures_are_one_film_and_single_ones_are_taken_each(tmp_path):
    touch(tmp_path / "film", *(f"shot_{n:04d}.png" for n in range(5)))
    assert media_files([tmp_path / "film"]).files == [tmp_path / "film"]
    touch(tmp_path / "pets", "cat.png", "dog.png")
    assert [path.name for path in media_files([tmp_path / "pets"]).files] == ["cat.png", "dog.png"]
    touch(tmp_path, "letter.docx")
    assert media_files([tmp_path / "letter.docx"]).files == [tmp_path / "letter.docx"]


def put(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(file.name)


def test_results_next_to_their_sources_are_not_taken_with_the_folder(tmp_path):
    for name, sources, result in (
        ("pictures", [f"shot_{n}.png" for n in range(3)], "pictures_x2.mkv"),
        ("pictures", [f"shot_{n}.png" for n in range(3)], "pictures_x2"),
        ("films", ["film.mp4", "film_x4.mp4"], "film_x2.mp4"),
        ("pets", ["cat.jpg", "dog.png"], "cat_x2.jpg"),
    ):
        folder = tmp_path / str(result) / name
        put(*(folder / source for source in sources))
        before = media_files([folder]).files
        made = folder / result
        put(*([made] if made.suffix else [made / "shot_0.tif", made / "shot_1.tif"]))
        if not made.suffix:
            put(made / "shot_2.tif", made / ".DS_Store")
        made_results.note(made)
        found = media_files([folder])
        assert (found.files, found.skipped) == (before, {RESULTS: [made]})
        assert media_files([made]).files == [made], "the user has chosen it"


def test_of_a_folder_of_results_all_are_taken(tmp_path):
    results = [tmp_path / "a_x2.mkv", tmp_path / "b_x2.mkv"]
    put(*results)
    for result in results:
        made_results.note(result)
    assert media_files([tmp_path]).files == results


def test_a_folder_that_is_dropped_twice_adds_only_what_is_new(bench, qtbot, tmp_path):
    put(tmp_path / "films" / "a.mkv")
    for name, head in (("a.mkv", ""), ("b.mkv", "1 added, 1 skipped"), ("", "0 added, 2 skipped")):
        put(*([tmp_path / "films" / name] if name else ()))
        with qtbot.waitSignal(bench.program.controller.looked_through, timeout=3000) as heard:
            bench.window.intake.take_drop(dropped(tmp_path / "films"))
        bench.hear()
        assert head in texts(bench.find("addedLine"))
    assert [path.name for path in heard.args[0].skipped[QUEUED]] == ["a.mkv", "b.mkv"]
    assert [row.source.name for row in bench.program.queue.rows] == ["a.mkv", "b.mkv"]
    bench.window.intake.take_drop(dropped(tmp_path / "films" / "a.mkv"))
    bench.hear()
    assert len(bench.program.queue.rows) == 3, "a file is meant as it is"


def test_a_drag_says_what_a_drop_will_do(bench, tmp_path):
    names = "a.mkv", "b.MP4", "c.png", "letter.docx", "notes"
    paths = [tmp_path / name for name in names]
    (tmp_path / "Tapes").mkdir()
    sentence = "Folders are searched with their subfolders."
    assert drop_texts(paths[:1]) == ("Add 1 video", "")
    assert drop_texts([*paths, tmp_path / "Tapes"]) == (
        "Add 2 videos, 1 image and 1 folder",
        f"Also 2 files of unknown type\n{sentence}",
    )
    assert drop_texts(paths[3:])[0] == "Add 2 files of unknown type"
    assert drop_texts([tmp_path / "x.safetensors"])[0] == "Add 1 model file"
    bench.use_language("zh_CN")
    assert drop_texts([*paths[:3], tmp_path / "Tapes"])[0] == "添加 2 个视频、1 张图片和 1 个文件夹"


def test_what_a_drop_does_is_found_without_looking_at_every_file(tmp_path, monkeypatch):
    looks = []
    monkeypatch.setattr(Path, "is_dir", lambda path: looks.append(path) or False)
    assert drop_texts([tmp_path / f"{n}.mkv" for n in range(500)])[0] == "Add 500 videos"
    assert not looks
    assert drop_texts([tmp_path / str(n) for n in range(500)])[0] == "Add 500 files of unknown type"
    assert len(looks) <= 50
