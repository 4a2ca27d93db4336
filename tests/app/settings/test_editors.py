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
    emitted: list[object] = []
    for name in FIELDS:
        editor = make_editor(name)
        qtbot.addWidget(editor)
        editor.changed.connect(lambda *args: emitted.append(args))
        editor.set_value(getattr(schema.JobSettings(), name))
    assert emitted == []


def test_an_edited_value_is_emitted_with_its_name(qtbot: QtBot) -> None:
    more = MoreChoices()
    qtbot.addWidget(more)
    with qtbot.waitSignal(more.changed) as emitted:
        more.editors["overwrite"].control.click()
    assert emitted.args == ["overwrite", True]


def test_a_text_that_is_not_a_time_is_marked_and_not_emitted(qtbot: QtBot) -> None:
    editor = make_editor("start")
    qtbot.addWidget(editor)
    emitted: list[object] = []
    editor.changed.connect(lambda *args: emitted.append(args))
    field = editor.control
    assert isinstance(field, QLineEdit)
    field.setText("half past two")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert emitted == []
    assert field.property("wrong")
    field.setText("1:02.5")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert emitted == [("start", "1:02.5")]


def test_number_fields_are_wide_enough(bench: Bench) -> None:
    """Qt once gave the text of every number field a width of one pixel."""
    bench.window.choices.more.unfold()
    bench.hear()
    field = bench.find("setting-segment_seconds")
    assert isinstance(field, QDoubleSpinBox)
    line = field.lineEdit()
    assert line.width() > line.fontMetrics().horizontalAdvance(field.text())


def test_a_lowest_value_that_means_automatic_is_shown_as_such(
    qtbot: QtBot,
) -> None:
    for name, default in (("blocks_on_device", -1), ("clip_frames", 0)):
        editor = make_editor(name)
        qtbot.addWidget(editor)
        editor.retranslate_ui()
        editor.set_value(default)
        assert editor.control.text() == "Automatic"


def test_only_an_existing_file_is_emitted(qtbot: QtBot, tmp_path: Path) -> None:
    editor = make_editor("dit")
    qtbot.addWidget(editor)
    emitted: list[object] = []
    editor.changed.connect(lambda *args: emitted.append(args))
    field = editor.control
    assert isinstance(field, QLineEdit)
    file = tmp_path / "mein 模型.safetensors"
    field.setText(str(file))
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert (emitted, field.property("wrong")) == ([], True)
    file.write_bytes(b"")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert emitted == [("dit", str(file))]
    field.clear()
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert emitted[1:] == [("dit", "")]
    assert not field.property("wrong")


def test_a_share_is_a_percentage(qtbot: QtBot) -> None:
    editor = make_editor("memory_share")
    qtbot.addWidget(editor)
    emitted: list[object] = []
    editor.changed.connect(lambda *args: emitted.append(args))
    field = editor.control
    assert isinstance(field, QDoubleSpinBox)
    editor.set_value(0.7)
    assert field.text() == "70 %"
    field.selectAll()
    qtbot.keyClicks(field, "55")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert emitted == [("memory_share", 0.55)]
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
