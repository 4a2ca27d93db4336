from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDoubleSpinBox, QLineEdit
from pytestqt.qtbot import QtBot

from app.jobs.more_choices import MoreChoices, groups
from app.settings.editors import make_editor
from engine.settings import schema
from tests.app.conftest import Bench

FIELDS = schema.describe(schema.JobSettings)


def test_every_setting_is_shown_exactly_once(bench: Bench) -> None:
    grouped = [name for names in groups().values() for name in names]
    main = [name for name, about in FIELDS.items() if about.group == "main"]
    assert sorted([*main, *grouped]) == sorted(FIELDS)
    assert set(bench.window.choices.more.editors) == set(grouped)
    names = {"scale": "target", "strength": "setting-strength"}  # of their controls, where others
    for name in main:
        bench.find(names.get(name, f"setting-{name}"))


def test_showing_a_value_is_not_a_change(qtbot: QtBot) -> None:
    heard: list[object] = []
    for name in FIELDS:
        editor = make_editor(name)
        qtbot.addWidget(editor)
        editor.changed.connect(lambda *args: heard.append(args))
        editor.set_value(getattr(schema.JobSettings(), name))
    assert heard == []


def test_what_is_edited_is_said_with_its_name(qtbot: QtBot) -> None:
    more = MoreChoices()
    qtbot.addWidget(more)
    with qtbot.waitSignal(more.changed) as heard:
        more.editors["overwrite"].control.click()
    assert heard.args == ["overwrite", True]


def test_a_text_that_is_no_time_is_marked_and_not_sent(qtbot: QtBot) -> None:
    editor = make_editor("start")
    qtbot.addWidget(editor)
    heard: list[object] = []
    editor.changed.connect(lambda *args: heard.append(args))
    field = editor.control
    assert isinstance(field, QLineEdit)
    field.setText("half past two")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert heard == []
    assert field.property("wrong")
    field.setText("1:02.5")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert heard == [("start", "1:02.5")]


def test_a_number_can_be_read(bench: Bench) -> None:
    """Qt once gave the text of every number field a width of one pixel."""
    bench.window.choices.more.unfold()
    bench.hear()
    field = bench.find("setting-segment_seconds")
    assert isinstance(field, QDoubleSpinBox)
    line = field.lineEdit()
    assert line.width() > line.fontMetrics().horizontalAdvance(field.text())


def test_the_lowest_number_is_a_word_where_it_leaves_the_choice_to_the_planner(
    qtbot: QtBot,
) -> None:
    for name, default in (("blocks_on_device", -1), ("clip_frames", 0)):
        editor = make_editor(name)
        qtbot.addWidget(editor)
        editor.retranslate_ui()
        editor.set_value(default)
        assert editor.control.text() == "Automatic"


def test_a_file_of_the_users_is_said_only_where_it_is(qtbot: QtBot, tmp_path: Path) -> None:
    editor = make_editor("dit")
    qtbot.addWidget(editor)
    heard: list[object] = []
    editor.changed.connect(lambda *args: heard.append(args))
    field = editor.control
    assert isinstance(field, QLineEdit)
    file = tmp_path / "mein 模型.safetensors"
    field.setText(str(file))
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert (heard, field.property("wrong")) == ([], True)
    file.write_bytes(b"")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert heard == [("dit", str(file))]
    field.clear()
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert heard[1:] == [("dit", "")]
    assert not field.property("wrong")


def test_a_share_is_a_percentage(qtbot: QtBot) -> None:
    editor = make_editor("memory_share")
    qtbot.addWidget(editor)
    heard: list[object] = []
    editor.changed.connect(lambda *args: heard.append(args))
    field = editor.control
    assert isinstance(field, QDoubleSpinBox)
    editor.set_value(0.7)
    assert field.text() == "70 %"
    field.selectAll()
    qtbot.keyClicks(field, "55")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert heard == [("memory_share", 0.55)]
    qtbot.keyClick(field, Qt.Key.Key_Up)
    assert field.text() == "60 %"
    field.selectAll()
    qtbot.keyClicks(field, "99")  # more than there may be
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert field.value() == pytest.approx(0.95)
    field.selectAll()
    qtbot.keyClicks(field, "a lot")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert field.value() == pytest.approx(0.95)
    field.selectAll()
    qtbot.keyClick(field, Qt.Key.Key_Delete)
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert field.value() == pytest.approx(0.95)
    assert field.text() == "95 %"
