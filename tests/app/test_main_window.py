from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from app import desktop
from app.state.job_row import JobState
from engine.core.errors import ErrorInfo
from engine.protocol import commands
from engine.protocol.gpu_reading import GpuReading
from engine.protocol.plan import Notice
from tests.app.conftest import Bench


def texts(bench: Bench) -> str:
    return "\n".join(
        label.text() for label in bench.window.findChildren(QLabel) if label.isVisible()
    )


def test_the_engine_is_told_to_load_once_the_window_is_there(bench: Bench) -> None:
    assert bench.engine.is_started
    assert isinstance(bench.engine.commands[0], commands.Prepare)


def test_an_empty_window_invites_and_cannot_start(bench: Bench) -> None:
    assert not bench.button("primaryAction").isEnabled()
    assert bench.find("emptyView").isVisible()


def test_start_pause_resume_cancel_by_the_one_button(bench: Bench, qtbot: QtBot) -> None:
    bench.add()
    primary = bench.button("primaryAction")
    assert (primary.text(), primary.isEnabled()) == ("Start", True)
    for text, kind in (
        ("Start", commands.StartQueue),
        ("Pause", commands.PauseJob),
        ("Resume", commands.ResumeJob),
    ):
        assert primary.text() == text
        qtbot.mouseClick(primary, Qt.MouseButton.LeftButton)
        bench.hear()
        assert bench.engine.asked(kind)
    qtbot.mouseClick(bench.button("secondAction"), Qt.MouseButton.LeftButton)
    bench.hear()
    assert bench.engine.asked(commands.CancelJob)
    assert bench.program.queue.rows[0].state is JobState.CANCELLED


def test_nothing_starts_by_itself_after_cancel(bench: Bench) -> None:
    bench.add("one.mp4")
    bench.add("two.mp4")
    bench.do("start")
    bench.do("cancel")
    sent = [type(command) for command in bench.engine.commands]
    assert sent.index(commands.StopQueue) < sent.index(commands.CancelJob)


def test_a_finished_film_offers_its_result(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    opened: list[Path] = []
    monkeypatch.setattr(desktop, "open_file", lambda path: opened.append(path) or True)
    bench.add()
    bench.do("start")
    bench.engine.finish()
    bench.hear()
    assert "13 of 13 checks passed" in texts(bench)
    assert bench.button("primaryAction").text() == "Open result"
    qtbot.mouseClick(bench.button("primaryAction"), Qt.MouseButton.LeftButton)
    assert opened == [Path("films/film_x2.mp4")]


def test_a_failed_check_is_not_called_a_success(bench: Bench) -> None:
    bench.add()
    bench.do("start")
    bench.engine.finish(failed=("frame-count",))
    bench.hear()
    assert "12 of 13 checks passed" in texts(bench)
    assert "240 frames in, 240 out." in texts(bench)


def test_a_file_that_is_no_film_stays_as_a_card_with_the_reason(bench: Bench) -> None:
    bench.engine.reject["letter.docx"] = ErrorInfo(
        code="unreadable-media", case="undecodable", params={"name": "letter.docx"}
    )
    bench.add("letter.docx")
    assert "letter.docx is not a video or picture" in texts(bench)
    assert bench.button("errorAction").text() == "Remove from the queue"
    bench.button("errorAction").click()
    assert bench.program.queue.rows == ()


def test_a_refused_plan_says_why_and_offers_the_button_that_helps(bench: Bench) -> None:
    bench.engine.notices = (
        Notice(
            code="output-exists",
            case="before-start",
            severity="refusal",
            params={"name": "film_x2.mp4"},
        ),
    )
    bench.add()
    assert "This cannot start" in texts(bench)
    assert not bench.button("primaryAction").isEnabled()
    assert bench.button("planHelp").text() == "Choose another name"


def test_a_full_disk_shows_the_error_and_another_try(bench: Bench) -> None:
    bench.add()
    bench.do("start")
    bench.engine.fail(ErrorInfo(code="disk-full", case="folder", params={"folder": "/films"}))
    bench.hear()
    assert bench.button("errorAction").text() == "Open the folder"
    assert bench.button("primaryAction").text() == "Try again"
    bench.do("retry")
    assert bench.engine.asked(commands.RetryJob)


def test_choices_reach_the_selected_job_and_the_next_file(bench: Bench, qtbot: QtBot) -> None:
    job_id = bench.add("one.mp4")
    with qtbot.waitSignal(bench.window.choices.changed, timeout=2000):
        qtbot.mouseClick(bench.button("segment-x4"), Qt.MouseButton.LeftButton)
    bench.hear()
    changed = bench.engine.asked(commands.ChangeJob)
    assert [(c.job_id, c.settings.scale) for c in changed] == [(job_id, 4)]
    bench.add("two.mp4")
    assert bench.engine.asked(commands.AddJob)[-1].settings.scale == 4


def test_start_does_not_overtake_a_choice_made_just_before(bench: Bench, qtbot: QtBot) -> None:
    bench.add()
    qtbot.mouseClick(bench.button("segment-1080p"), Qt.MouseButton.LeftButton)
    bench.do("start")
    sent = [type(command) for command in bench.engine.commands]
    assert sent.index(commands.ChangeJob) < sent.index(commands.StartQueue)


def test_a_running_film_keeps_its_choices(bench: Bench) -> None:
    bench.add()
    bench.do("start")
    assert not bench.find("target").isEnabled()


def test_files_dropped_anywhere_are_queued(bench: Bench, tmp_path: Path) -> None:
    film = tmp_path / "dropped.mkv"
    film.write_bytes(b"")
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(film))])
    where = QPointF(700, 400)
    action, button = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    key = Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(where.toPoint(), action, mime, button, key)
    QApplication.sendEvent(bench.window, enter)
    assert enter.isAccepted()
    assert bench.find("dropOverlay").isVisible()
    QApplication.sendEvent(bench.window, QDropEvent(where, action, mime, button, key))
    bench.hear()
    assert not bench.find("dropOverlay").isVisible()
    assert [row.source.name for row in bench.program.queue.rows] == ["dropped.mkv"]


def test_closing_while_a_film_runs_asks_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add()
    bench.do("start")
    answers = [False, True]
    monkeypatch.setattr(bench.window, "confirm_close", lambda: answers.pop(0))
    for is_accepted in (False, True):
        event = QCloseEvent()
        bench.window.closeEvent(event)
        assert event.isAccepted() is is_accepted


def test_jobs_of_the_last_time_are_offered_and_go_on(bench: Bench) -> None:
    from engine.api import UnfinishedJob

    left = UnfinishedJob(
        job_id="old",
        source=Path("old.mp4"),
        output=Path("old_x2.mp4"),
        frames_done=10,
        frames_total=240,
    )
    bench.program.offer_left_over((left,))
    assert bench.find("unfinishedBanner").isVisible()
    bench.button("continueUnfinished").click()
    assert [c.job_id for c in bench.engine.asked(commands.AdoptJob)] == ["old"]
    assert not bench.find("unfinishedBanner").isVisible()


def test_the_queue_follows_the_keyboard(bench: Bench, qtbot: QtBot) -> None:
    bench.add("one.mp4")
    second = bench.add("two.mp4")
    bench.window.queue_column.view.select(second)
    bench.window.actions_["move_up"].trigger()
    assert [row.source.name for row in bench.program.queue.rows] == ["two.mp4", "one.mp4"]
    assert bench.engine.asked(commands.MoveJob)[-1].position == 0
    bench.window.actions_["remove"].trigger()
    bench.hear()
    assert [row.source.name for row in bench.program.queue.rows] == ["one.mp4"]


def test_without_a_card_the_window_says_so_and_works(bench: Bench) -> None:
    bench.engine.emit_telemetry()
    bench.hear()
    assert "No NVIDIA GPU: runs on the processor" in texts(bench)


def test_with_a_card_its_memory_is_shown(bench: Bench) -> None:
    reading = GpuReading(
        name="NVIDIA Test Card",
        total_mb=16384,
        ours_mb=4096,
        others_mb=1024,
        load_percent=97,
        temperature_c=67,
    )
    bench.engine.emit_telemetry(reading)
    bench.hear()
    assert "5.0 / 16.0 GB" in texts(bench)
    assert "Test Card · 16 GB" in texts(bench)


def test_progress_alone_does_not_rebuild_the_plan(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add()
    bench.do("start")
    bench.engine.advance(10)
    bench.hear()
    built: list[object] = []
    monkeypatch.setattr(bench.window.decision.plan, "show_job", built.append)
    for done in range(11, 60):
        bench.engine.advance(done)
        bench.hear()
    assert built == []


def test_everything_that_acts_has_a_name_for_screen_readers(bench: Bench) -> None:
    from PySide6.QtWidgets import QAbstractButton, QComboBox, QLineEdit, QSlider

    bench.add()
    for kind in (QAbstractButton, QComboBox, QSlider, QLineEdit):
        for widget in bench.window.findChildren(kind):
            if widget.isVisible() and not widget.objectName().startswith("qt_"):
                name = widget.accessibleName() or getattr(widget, "text", str)()
                assert name, widget.objectName()


def test_a_cancelled_film_can_be_retried_while_others_wait(bench: Bench) -> None:
    first = bench.add("one.mp4")
    bench.add("two.mp4")
    bench.do("start")
    bench.do("cancel")
    bench.window.queue_column.view.select(first)
    bench.hear()
    assert bench.button("primaryAction").text() == "Start"
    assert bench.button("secondAction").text() == "Try again"


def test_another_name_for_a_failed_job_can_be_typed_before_it_runs_again(bench: Bench) -> None:
    bench.add()
    bench.do("start")
    params = {"name": "film_x2.mp4"}
    bench.engine.fail(ErrorInfo(code="output-exists", case="before-start", params=params))
    bench.hear()
    assert bench.button("errorAction").text() == "Choose another name"
    before = len(bench.engine.asked(commands.StartQueue))
    bench.button("errorAction").click()
    bench.hear()
    assert bench.program.queue.rows[0].state is JobState.WAITING
    assert len(bench.engine.asked(commands.StartQueue)) == before
    field = bench.find("outputName")
    assert field.isEnabled()
    assert field.selectedText() == "film_x2"
