"""The list of keys is that of the program, and the licences are those that were packed."""

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QLabel, QPlainTextEdit

from app import desktop
from app.actions import SPECS
from app.help.view import HelpView, groups, licences
from app.i18n import LANGUAGES
from app.preview import compare_canvas, playback
from app.preview.scene import Mode
from tests.app.conftest import part

LETTERS = [Qt.Key(code) for code in (*range(Qt.Key.Key_A, Qt.Key.Key_Z + 1), Qt.Key.Key_Space)]
DIGITS = [Qt.Key(code) for code in range(Qt.Key.Key_0, Qt.Key.Key_9 + 1)]
ENDS = [Qt.Key.Key_Home, Qt.Key.Key_End, Qt.Key.Key_Plus, Qt.Key.Key_Minus]
SIDES = [Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down]


def _listed(keys):
    return {QKeySequence(key)[0].key() for names, _ in keys for key in names if "Shift" not in key}


def test_f1_opens_help_with_every_action_and_its_key(bench):
    assert SPECS["help"].shortcuts == ("F1",)
    bench.window.actions_["help"].trigger()
    view = bench.program.window.help
    assert view.isVisible()
    shown = {label.text() for label in view.findChildren(QLabel)}
    for name in SPECS:
        action = bench.window.actions_[name]
        keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
        assert {action.text(), keys} <= shown, action.objectName()
    bench.use_language("zh_CN")
    assert "按住时显示原片或 A" in {label.text() for label in view.findChildren(QLabel)}


def test_f1_and_escape_close_help_again(bench, qtbot):
    view = bench.program.window.help
    for key in (Qt.Key.Key_F1, Qt.Key.Key_Escape):
        bench.do("help")
        assert view.isVisible()
        qtbot.keyClick(view, key)
        assert not view.isVisible(), key
    bench.do("help")
    assert view.isVisible()
    bench.do("help")
    assert not view.isVisible(), "F1 in the window itself"


def test_the_log_has_another_key(bench):
    assert bench.window.actions_["log"].shortcut() == QKeySequence("Ctrl+L")


def test_keys_of_playback_and_picture_are_those_they_answer_to(bench):
    bench.add()
    played, canvas = bench.window.preview.playback, bench.window.preview.canvas
    bench.patch.setattr(played.player, "play", lambda *_given: None)
    taken = {
        key
        for key in (*LETTERS, *SIDES)
        if played.take_key(QKeyEvent(QEvent.Type.KeyPress, key, Qt.KeyboardModifier.NoModifier))
    }
    assert taken == _listed(playback.KEYS)
    canvas.set_mode(Mode.SPLIT)
    answered = {key for key in (*LETTERS, *DIGITS, *ENDS) if canvas._letter(key)}
    assert answered == _listed(compare_canvas.KEYS)


def test_the_packed_file_of_licences_is_shown_and_a_source_tree_says_where_they_are(
    qtbot, tmp_path, monkeypatch
):
    def shown() -> str:
        view = HelpView()
        qtbot.addWidget(view)
        return part(view, "licences", QPlainTextEdit).toPlainText()

    assert "THIRD_PARTY_NOTICES.md" in shown()
    packed = tmp_path / "licences" / "THIRD_PARTY_LICENCES.txt"
    packed.parent.mkdir()
    packed.write_text("torch 2.13\n\nBSD-3-Clause", "utf-8")
    monkeypatch.setenv("UPREEL_RESOURCES", str(tmp_path))
    assert shown() == licences() == "torch 2.13\n\nBSD-3-Clause"


def test_no_key_is_listed_twice_in_a_group_and_each_page_can_be_shown(bench):
    bench.do("help")
    view = bench.program.window.help
    for page in ("about", "keys"):
        view.show_page(page)
        assert part(view, f"segment-{page}").isChecked()
    for keys in groups().values():
        assert len({key for key, _ in keys}) == len(keys)


def test_help_opens_the_manual_in_the_language_of_the_window(bench):
    opened = []
    bench.patch.setattr(desktop, "open_file", opened.append)
    bench.window.actions_["help"].trigger()
    for language in LANGUAGES:
        bench.program.use_language(language)
        part(bench.program.window.help, "openManual").click()
        assert opened[-1].parts[-3:] == ("manual", language, "index.html")
        assert opened[-1].is_file()
    assert len(opened) == len(LANGUAGES)
