"""What follows the queue, with a computer that only writes down what it is asked."""

import dataclasses
import sys
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel

from engine.core.errors import DiskFull, ErrorInfo
from engine.protocol import commands, events
from engine.settings.schema import EngineSettings, JobSettings
from tests.app.conftest import Bench, texts
from tests.app.controllers.test_downloads import MODEL, refused
from tests.app.test_narrow_window import cut_off, settle
from tests.app.test_small_screens import lies_inside

COMMAND = '"C:\\my tools\\done.cmd" --mail "to me" & echo'
FULL = DiskFull("folder", folder="/films").info()


def want(bench: Bench, what: str, command: str = "") -> None:
    settings = EngineSettings(after_queue=what, after_queue_command=command)
    bench.program.ui_state.engine_settings = settings


def last(bench):
    """The latest command about the queue; frames are asked for at any time."""
    kinds = (commands.StartQueue, commands.StopQueue)
    return [one for one in bench.engine.commands if isinstance(one, kinds)][-1]


def pass_by(bench: Bench, seconds: int) -> None:
    for _ in range(seconds):
        if bench.program.after_queue.card.isVisible():
            bench.program.after_queue.count()


@pytest.mark.parametrize("what", ["sleep", "shut-down"])
def test_a_minute_after_the_last_film_though_one_has_failed(bench, computer, what):
    want(bench, what)
    bench.add("one.mp4")
    bench.start("two.mp4")
    bar = bench.program.after_queue.card
    bench.fail(FULL)
    assert not bar.isVisible(), "a film is left"
    bench.finish()
    assert bar.isVisible()
    assert "in 60 s" in texts(bar)
    pass_by(bench, 59)
    assert "in 1 s" in texts(bar)
    assert computer.asked == []
    pass_by(bench, 5)
    assert computer.asked == [what]
    assert not bar.isVisible()


def test_seconds_pass_by_themselves(bench, computer, qtbot):
    want(bench, "sleep")
    bench.start()
    bench.finish()
    bar = bench.program.after_queue.card
    qtbot.waitUntil(lambda: "in 59 s" in texts(bar), timeout=5000)
    bench.press("cancelAfterQueue")


def test_a_folded_queue_opens_to_show_the_seconds(bench, computer):
    bench.window.resize(910, 472)
    want(bench, "sleep")
    bench.start()
    bench.finish()
    settle()
    assert lies_inside(bench.find("cancelAfterQueue"))
    bench.press("cancelAfterQueue")


def test_cancel_settings_and_whatever_happens_to_the_queue_end_the_minute(bench, computer):
    bar = bench.program.after_queue.card
    for end in (
        lambda: bench.press("cancelAfterQueue"),
        lambda: (want(bench, "shut-down"), bench.program.after_queue.count()),
        lambda: bench.add("another.mp4"),
    ):
        want(bench, "sleep")
        bench.start()
        bench.finish()
        assert bar.isVisible()
        end()
        assert not bar.isVisible()
        pass_by(bench, 61)
    assert computer.asked == []


def test_a_sound_needs_no_minute_and_nothing_is_nothing(bench, computer):
    for what, asked in (("nothing", []), ("sound", ["sound"])):
        want(bench, what)
        bench.start()
        bench.finish()
        assert computer.asked == asked
        assert not bench.program.after_queue.card.isVisible()


def test_nothing_follows_a_queue_that_the_user_has_stopped_or_that_is_empty(bench, computer):
    want(bench, "sound")
    bench.start("one.mp4")
    bench.do("cancel")
    bench.start("two.mp4")
    bench.press("stopsAfterThis")
    bench.finish()
    bench.program.controller.start()
    bench.engine.reject["letter.docx"] = ErrorInfo(
        code="unreadable-media", case="undecodable", params={"name": "letter.docx"}
    )
    bench.add("letter.docx")
    assert computer.asked == ["sound"], "after Start with a film that is refused"


def test_a_film_that_is_refused_at_the_end_does_not_keep_it_from_ending(bench, computer):
    """A file that is still read while the last film ends."""
    want(bench, "sound")
    bench.start("one.mp4")
    bench.program.queue.add("late", Path("late.mp4"), JobSettings())
    bench.finish()
    assert computer.asked == []
    bench.emit(events.JobRejected(job_id="late", source="late.mp4", error=FULL))
    assert computer.asked == ["sound"]
    assert isinstance(last(bench), commands.StopQueue), "the next one waits for Start"


def test_films_that_wait_for_downloads_come_first(bench, computer):
    """One that had its turn before everything was here."""
    want(bench, "sound")
    lacks = refused(bench, MODEL, "one.mp4")
    bench.engine.notices = ()
    bench.start("two.mp4")
    bench.fail(ErrorInfo(code=MODEL.code, case=MODEL.case, params=MODEL.params))
    bench.window.queue_column.view.select(lacks)
    bench.press("primaryAction")
    bench.finish()
    assert list(bench.program.download_model.films) == [lacks]
    assert computer.asked == []
    bench.finish_files()
    bench.finish()
    assert computer.asked == ["sound"]


def test_a_command_is_shown_as_it_is_and_started_as_words(bench, computer, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: f"/found/{name}")
    want(bench, "command", COMMAND)
    bench.start()
    bench.finish()
    bar = bench.program.after_queue.card
    assert COMMAND in texts(bar)
    pass_by(bench, 60)
    words = ["/found/C:\\my tools\\done.cmd", "--mail", "to me", "&", "echo"]
    assert computer.asked == [words]


@pytest.mark.parametrize("command", ["", "no-such-program-here --now"])
def test_a_command_that_does_not_start_says_so(bench, computer, command):
    want(bench, "command", command)
    bench.start()
    bench.finish()
    pass_by(bench, 60)
    bar = bench.program.after_queue.card
    assert "The command after the queue could not be started." in texts(bar)
    assert computer.asked == []
    assert bench.find("cancelAfterQueue").text() == "Close"
    bench.press("cancelAfterQueue")
    assert not bar.isVisible()


def test_a_computer_that_refuses_says_so(bench, computer):
    computer.obeys = False
    want(bench, "sleep")
    bench.start()
    bench.finish()
    pass_by(bench, 60)
    assert "could not be put to sleep" in texts(bench.program.after_queue.card)


def test_finish_this_one_then_stop(bench):
    switch = bench.find("stopsAfterThis")
    assert not switch.isVisible(), "no film runs"
    bench.add("one.mp4")
    bench.start("two.mp4")
    assert switch.isVisible()
    assert not switch.isChecked()
    bench.press("stopsAfterThis")
    bench.press("stopsAfterThis")
    assert isinstance(last(bench), commands.StartQueue), "taken back"
    bench.press("stopsAfterThis")
    bench.finish()
    assert bench.engine.running is None
    assert not switch.isVisible()
    assert bench.find("primaryAction").text() == "Start two.mp4"
    bench.do("start")
    assert bench.engine.running is not None
    assert not switch.isChecked(), "the next Start runs them all"


def test_it_fits_the_smallest_window(bench, computer):
    want(bench, "command", f"{sys.executable} -c pass " + "films@example.org " * 6)
    bench.start()
    bench.window.resize(1024, 640)
    switch, bar = bench.find("stopsAfterThis"), bench.program.after_queue.card
    for language in ("zh_CN", "en"):
        bench.program.use_language(language)
        settle()
        assert bench.window.width() == 1024
        assert list(cut_off(bench.window.decision)) == []
        assert switch.width() >= switch.sizeHint().width(), language
    bench.finish()
    for language in ("en", "zh_CN"):
        bench.program.use_language(language)
        settle()
        assert bench.window.size().toTuple() == (1024, 640)
        assert bar.isVisible()
        assert list(cut_off(bar)) == []
        english = "Queue finished: your command runs in 60 s"
        shown = [label.text() for label in bar.findChildren(QLabel)]
        assert (english in shown) is (language == "en")


def test_the_command_of_the_settings_is_checked(bench):
    bench.do("settings")
    dialog = bench.program.settings.dialog
    editor = dialog.editors["after_queue_command"]
    for command in ("no-such-program-here", f'"{sys.executable}" -V'):
        editor.control.setText(command)
        editor.control.editingFinished.emit()
    assert editor.control.property("wrong") is False
    assert dialog.settings.after_queue_command == f'"{sys.executable}" -V'
    sent = [one.settings.after_queue_command for one in bench.asked(commands.ChangeEngine)]
    assert sent == [dialog.settings.after_queue_command], "one that is missing is not sent"
    assert dataclasses.replace(dialog.settings, after_queue_command="") == EngineSettings()
