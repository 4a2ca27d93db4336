import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from app.jobs.more_choices import groups
from app.settings.editors import Editor, make_editor
from engine.settings import schema

FIELDS = schema.describe(schema.JobSettings)


def made(qtbot: QtBot, name: str) -> tuple[Editor, list[tuple[str, object]]]:
    """An editor and what it emits."""
    editor, emitted = make_editor(name), []
    qtbot.addWidget(editor)
    editor.changed.connect(lambda *args: emitted.append(args))
    return editor, emitted


def enter(qtbot: QtBot, field: QWidget, text: str) -> None:
    """Replace the text of a field and press Return."""
    if isinstance(field, QLineEdit):
        field.setText(text)
    else:
        field.selectAll()
        qtbot.keyClick(field, Qt.Key.Key_Delete)
        qtbot.keyClicks(field, text)
    qtbot.keyClick(field, Qt.Key.Key_Return)


def test_every_setting_is_shown_exactly_once_and_number_fields_are_wide_enough(bench):
    grouped = [name for names in groups().values() for name in names]
    main = [name for name, about in FIELDS.items() if about.group == "main"]
    assert sorted([*main, *grouped]) == sorted(FIELDS)
    assert set(bench.window.choices.more.editors) == set(grouped)
    names = {"scale": "target", "strength": "setting-strength"}  # of their controls, where others
    for name in main:
        bench.find(names.get(name, f"setting-{name}"))
    bench.window.choices.more.unfold()  # Qt once gave number fields a width of one pixel
    bench.hear()
    field = bench.find("setting-segment_seconds")
    line = field.lineEdit()
    assert line.width() > line.fontMetrics().horizontalAdvance(field.text())


def test_showing_a_value_is_not_a_change(qtbot):
    for name in FIELDS:
        editor, emitted = made(qtbot, name)
        editor.set_value(getattr(schema.JobSettings(), name))
        assert emitted == []
        if name in ("blocks_on_device", "clip_frames"):  # the lowest value
            assert editor.control.text() == "Automatic"


def test_a_text_that_is_not_a_time_is_left_to_the_planner_which_says_why(qtbot):
    editor, emitted = made(qtbot, "start")
    for text in ("half past two", "1:02.5"):
        enter(qtbot, editor.control, text)
    assert emitted == [("start", "half past two"), ("start", "1:02.5")]


def test_only_an_existing_file_is_emitted(qtbot, tmp_path):
    editor, emitted = made(qtbot, "dit")
    field = editor.control
    file = tmp_path / "mein 模型.safetensors"
    enter(qtbot, field, str(file))
    assert (emitted, field.property("wrong")) == ([], True)
    file.write_bytes(b"")
    enter(qtbot, field, str(file))
    enter(qtbot, field, "")
    assert emitted == [("dit", str(file)), ("dit", "")]
    assert not field.property("wrong")


def test_a_share_is_a_percentage(qtbot):
    editor, emitted = made(qtbot, "memory_share")
    field = editor.control
    editor.set_value(0.7)
    assert field.text() == "70 %"
    enter(qtbot, field, "55")
    assert emitted == [("memory_share", 0.55)]
    qtbot.keyClick(field, Qt.Key.Key_Up)
    assert field.text() == "60 %"
    for text in ("99", "a lot", ""):  # more than there may be, no number, nothing
        enter(qtbot, field, text)
        assert field.value() == pytest.approx(0.95)
    assert field.text() == "95 %"
