"""Name and folder of the result."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.jobs.result_form import renamed, with_ending
from tests.app.conftest import texts


def type_name(bench, name):
    field = bench.find("outputName")
    field.setFocus()
    field.selectAll()
    QTest.keyClick(field, Qt.Key.Key_Delete)
    QTest.keyClicks(field, name)
    QTest.keyClick(field, Qt.Key.Key_Return)
    bench.window.choices.flush()
    bench.hear()
    return field


def test_why_a_name_is_not_taken_is_said_below_it(bench):
    bench.add("film.mp4")
    field = type_name(bench, "a:b?c:d")
    reason = bench.find("outputReason")
    assert field.text() == "film_x2.mp4", "what the result is called"
    assert reason.isVisible()
    assert reason.text() == "Not applied: names cannot contain : ?"
    assert field.accessibleDescription() == reason.text()
    bench.use_language("zh_CN")
    assert "未采用：名称中不能有 : ?" in texts(bench.window.choices.result)
    QTest.keyClick(field, Qt.Key.Key_End)
    QTest.keyClicks(field, "x")
    assert not reason.isVisible(), "it is about what was typed before"


def test_the_reason_goes_with_a_name_that_is_taken_and_with_another_film(bench):
    first = bench.add("film.mp4")
    bench.add("other.mp4")
    reason = bench.find("outputReason")
    bench.window.queue_column.view.select(first)
    type_name(bench, "a/b")
    assert reason.isVisible()
    bench.window.queue_column.view.select(bench.program.queue.rows[1].job_id)
    assert not reason.isVisible()
    type_name(bench, "a/b")
    type_name(bench, "good")
    assert not reason.isVisible()
    assert bench.program.queue.rows[1].output.name == "good.mp4"


def test_after_return_the_name_of_the_result_is_shown(bench):
    bench.add("film.mp4")
    for typed, name in (("noext", "noext.mp4"), ("a.jpg", "a.jpg.mp4"), ("", "film_x2.mp4")):
        field = type_name(bench, typed)
        assert field.hasFocus()
        assert field.text() == name == bench.program.queue.rows[0].plan.output.name
    QTest.keyClicks(field, "x")
    bench.choose(crf=20)
    assert field.text().count("x") == 2, "what is being typed stays"


def test_another_format_renames_the_chosen_result_and_leaves_folders(tmp_path):
    film, shots = tmp_path / "film.v2.mp4", tmp_path / "film.v2"
    for output, container, is_image, expected in (
        (film, "webm", False, tmp_path / "film.v2.webm"),
        (film, "exr", False, shots),
        (shots, "mkv", False, tmp_path / "film.v2.mkv"),
        (shots, "auto", False, None),
        (film, "auto", False, film),
        (tmp_path / "a.png", "tiff", True, tmp_path / "a.tif"),
        (tmp_path, "mkv", False, tmp_path),
        (tmp_path, "auto", False, tmp_path),
    ):
        assert renamed(output, container, is_image) == expected, (output, container)
    assert with_ending("shot.exr", ".mp4") == "shot.exr"
