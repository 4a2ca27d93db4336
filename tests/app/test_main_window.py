from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QCloseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QPushButton,
)

from app import desktop, labels
from app.state.job_row import JobState
from engine.core.errors import ErrorInfo, ResultGone, SourceMissing
from engine.protocol import commands, events
from engine.protocol.plan import Notice
from tests.app.conftest import dropped, texts
from tests.app.jobs.test_unfinished import begun
from tests.app.test_gauges import GPU
from tests.helpers.fakes import grey, make_media


def test_an_empty_window_invites_and_lets_the_engine_load(bench):
    assert bench.engine.is_started
    assert isinstance(bench.engine.commands[0], commands.Prepare)
    assert not bench.find("primaryAction").isEnabled()
    assert bench.find("emptyView").isVisible()


def test_start_pause_resume_and_cancel_by_buttons(bench, qtbot, two_presses):
    bench.add()
    start, pause = bench.find("primaryAction"), bench.find("pauseAction")
    for button, text, kind in (
        (start, "Start", commands.StartQueue),
        (pause, "Pause", commands.PauseJob),
        (pause, "Resume", commands.ResumeJob),
    ):
        assert (button.text(), button.isEnabled()) == (text, True)
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
        bench.hear()
        assert bench.asked(kind)
    qtbot.mouseClick(bench.find("cancelAction"), Qt.MouseButton.LeftButton)
    bench.hear()
    assert bench.asked(commands.CancelJob)
    assert bench.program.queue.rows[0].state is JobState.CANCELLED


def test_the_peak_of_a_job_is_kept_while_another_video_is_looked_at(bench):
    job_id, other = bench.start(), bench.add("other.mp4")
    memory = bench.window.preview.figures.figure("memory")
    planned = memory.text
    bench.measure()
    assert memory.text == planned, "models are not loaded yet"
    bench.advance(8)
    bench.measure()
    own = memory.text
    assert own.startswith("1.2 GB planned")
    bench.select(other)
    bench.measure()
    bench.select(job_id)
    assert memory.text == own


def test_a_finished_film_offers_its_result(bench, qtbot):
    opened: list[Path] = []
    bench.patch.setattr(desktop, "open_file", lambda path: opened.append(path) or True)
    bench.start()
    bench.finish()
    card = labels.state(bench.program.queue.rows[0])
    said = [card, *texts(bench.window).splitlines()]
    (checked,) = (one for one in said if "check" in one)
    assert "All 14 checks passed" in checked, "once"
    assert f"{labels.from_to(bench.window.selected)} · " in texts(bench.find("reportStrip"))
    qtbot.mouseClick(bench.find("openButton"), Qt.MouseButton.LeftButton)
    assert opened == [Path("films/film_x2.mp4")]


def test_what_is_done_with_a_result_stands_in_one_place(bench):
    bench.start()
    bench.finish()
    names = {"Open", "Folder", "Report", "Compare", "Open result", "Show in folder", "Details"}
    shown = [b for b in bench.window.findChildren(QPushButton) if b.isVisible()]
    places = [(b.text(), b.parent().objectName()) for b in shown if b.text() in names]
    expected = ["Compare", "Folder", "Open", "Report"]
    assert sorted(places) == [(name, "reportStrip") for name in expected]
    assert bench.find("primaryAction").text() == "Play"


def test_a_result_that_is_gone_is_not_called_verified(bench):
    job_id = bench.start()
    bench.finish()
    before = len(bench.asked(commands.ShowFrame))
    bench.do("open_result")
    assert len(bench.asked(commands.ShowFrame)) > before, "the engine says what became of it"
    error = ResultGone("deleted", name="film_x2.mp4").info()
    bench.emit(events.ResultLost(job_id=job_id, error=error))
    row, (first, second) = bench.window.selected, ("primaryAction", "secondAction")
    assert labels.state(row) == "Result missing"
    for _ in range(2):  # as it happens, and when it is selected again
        assert "film_x2.mp4 no longer exists." in texts(bench.find("errorCard"))
        assert "Result missing" in bench.window.preview.strip.text
        assert "verified" not in bench.window.preview.strip.text
        assert [bench.find(name).text() for name in (first, second)] == ["Run again", "Folder"]
        assert not bench.find("errorAction").isVisible(), "the main button does that"
        bench.add("other.mp4")
        bench.engine.sink.emit(events.JobRemoved(job_id=bench.program.queue.rows[1].job_id))
        bench.hear()
        bench.select(job_id)
    answer = {"frame": 0, "seconds": bench.window.preview.pair.asked_s, "source": grey()}
    bench.emit(events.PreviewReady(job_id=job_id, result=grey(), **answer))
    assert labels.state(row) == "Done"
    assert "verified" in bench.window.preview.strip.text
    assert bench.find("primaryAction").text() == "Play"


def test_a_failed_check_is_not_called_a_success(bench):
    bench.start()
    bench.finish(failed=("frame-count",))
    assert labels.state(bench.program.queue.rows[0]) == "Done, but checks failed"
    assert "1 of 14 checks failed" in texts(bench.find("reportStrip"))
    said = "Frame count\n240 frames in, 240 out."
    assert texts(bench.window).count(said) == 1
    assert said in texts(bench.find("doubtCard"))
    bench.use_language("zh_CN")
    assert texts(bench.find("doubtCard")).count("240") == 2


def test_a_file_that_is_no_film_stays_as_a_card_with_the_reason(bench):
    bench.engine.reject["letter.docx"] = ErrorInfo(
        code="unreadable-media", case="undecodable", params={"name": "letter.docx"}
    )
    bench.add("letter.docx")
    assert "letter.docx is not a video or image" in texts(bench.window)
    assert not bench.find("dropPanel").isVisible()
    assert texts(bench.find("emptyView")) == "letter.docx cannot be used."
    assert bench.find("errorAction").text() == "Remove from the queue"
    bench.find("errorAction").click()
    assert bench.program.queue.rows == ()
    assert bench.find("dropPanel").isVisible()


def test_the_stage_names_a_file_that_is_read_and_the_keys_go_on_to_its_picture(bench):
    view, button = bench.window.preview, bench.find("emptyAddButton")
    button.setFocus()
    bench.patch.setattr(bench.engine, "send", lambda _command: None)  # reading takes its time
    bench.add("tiny.mp4")
    assert texts(bench.find("emptyView")) == "Reading tiny.mp4 …"
    assert not button.isVisible()
    bench.use_language("zh_CN")
    assert texts(bench.find("emptyView")) == "正在读取 tiny.mp4…"
    bench.use_language("en")
    media = make_media(Path("films/tiny.mp4"))
    bench.emit(events.JobQueued(job_id=bench.program.queue.rows[0].job_id, media=media))
    assert view.canvas.isVisible()
    assert bench.window.focusWidget() is view.canvas


def test_a_failed_or_cancelled_film_can_be_tried_again(bench):
    first = bench.start("one.mp4")
    bench.fail(ErrorInfo(code="disk-full", case="folder", params={"folder": "/films"}))
    assert bench.find("errorAction").text() == "Open the folder"
    assert bench.find("primaryAction").text() == "Try again"
    bench.do("retry")
    assert bench.asked(commands.RetryJob)
    bench.add("two.mp4")
    bench.do("start")
    bench.do("cancel")
    sent = [type(command) for command in bench.engine.commands]
    assert sent.index(commands.StopQueue) < sent.index(commands.CancelJob), "nothing else starts"
    bench.select(first)
    assert bench.find("primaryAction").text() == "Start two.mp4"
    assert bench.find("secondAction").text() == "Try again"


def test_a_film_that_failed_says_why_once_where_its_button_is(bench):
    job_id = bench.start()
    bench.fail(ErrorInfo(code="disk-full", case="folder", params={"folder": "/films"}))
    for _ in range(2):  # as it happens, and when it is selected again
        assert texts(bench.window).count("The disk is full") == 1
        assert "The disk is full" in texts(bench.find("errorCard"))
        assert bench.find("errorAction").isVisible()
        bench.add("other.mp4")
        bench.select(job_id)


def test_a_missing_source_is_said_by_its_name_with_one_button(bench):
    bench.start()
    path = Path("a", "long", "way", "film.mp4")
    bench.fail(SourceMissing("since-start", name=path.name, path=path).info())
    said = texts(bench.find("errorCard"))
    assert "film.mp4 no longer exists." in said
    assert "then try again" in said
    buttons = [b for b in bench.window.findChildren(QPushButton) if b.isVisible()]
    assert [b.objectName() for b in buttons if b.text() == "Try again"] == ["primaryAction"]


def test_a_cancelled_film_says_what_of_it_is_finished_and_goes_on(bench):
    bench.start()
    bench.do("cancel")
    assert labels.state(bench.window.selected) == "Cancelled"
    assert bench.find("primaryAction").text() == "Try again", "nothing of it was made"
    bench.do("retry")
    bench.engine.advance(120)
    bench.do("cancel")
    assert labels.state(bench.window.selected) == "Cancelled · 5 of 10 seconds finished"
    assert bench.find("primaryAction").text() == "Continue"
    bench.press("primaryAction")
    assert bench.window.selected.state is JobState.RUNNING


def test_what_is_removed_comes_back_with_its_pieces(bench):
    job_id = bench.start("one.mp4")
    bench.advance(80)
    bench.do("cancel")
    bench.do("remove")
    assert bench.program.queue.rows == ()
    assert [one.can_return for one in bench.asked(commands.RemoveJob)] == [True]
    assert "3 of 10 seconds finished" in texts(bench.window)
    bench.press("undoRemoval")
    assert bench.asked(commands.RestoreJob)[-1].job_id == job_id
    row = bench.program.queue.rows[0]
    assert (row.state, row.done) == (JobState.CANCELLED, 80)
    assert not bench.find("undoLine").isVisible()
    bench.do("remove")
    bench.program.close()
    assert not bench.asked(commands.RemoveJob)[-1].can_return, "pieces go with the undo"


def test_several_selected_films_go_and_return_together_in_their_order(bench):
    names = ["one.mp4", "two.mp4", "three.mp4"]
    for name in names:
        bench.add(name)
    bench.window.queue_column.view.selectAll()
    bench.do("remove")
    assert "3 videos" in bench.find("undoLine").findChild(QAbstractButton).accessibleDescription()
    bench.do("undo")
    assert [row.source.name for row in bench.program.queue.rows] == names
    assert [c.position for c in bench.asked(commands.RestoreJob)] == [0, 1, 2]


def test_films_that_were_begun_go_on_before_those_that_wait(bench):
    bench.add("waits.mp4")
    bench.program.left_over.offer(begun("first.mp4", "second.mp4"))
    bench.press("continueUnfinished")
    films = [row.source.name for row in bench.program.queue.rows]
    assert films == ["first.mp4", "second.mp4", "waits.mp4"]
    assert [(c.job_id, c.position) for c in bench.asked(commands.AdoptJob)] == [
        ("first.mp4", 0),
        ("second.mp4", 1),
    ]
    assert not bench.find("unfinishedBanner").isVisible()


def test_films_that_are_added_after_a_finished_one_are_shown(bench):
    bench.start()
    bench.finish()
    bench.window.intake.take([Path("new.mp4"), Path("other.mp4")])
    bench.hear()
    assert bench.window.selected.source.name == "new.mp4"
    assert bench.find("primaryAction").text() == "Start queue (2)"


def test_the_keyboard_goes_from_start_to_pause(bench):
    bench.add()
    bench.find("primaryAction").setFocus()
    bench.press("primaryAction")
    assert bench.window.focusWidget() is bench.find("pauseAction")


@pytest.mark.parametrize(
    ("end", "name"),
    [
        (lambda bench: bench.finish(), "compareCanvas"),
        (
            lambda bench: bench.fail(
                ErrorInfo(code="disk-full", case="folder", params={"folder": "/films"})
            ),
            "primaryAction",
        ),
        (lambda bench: bench.press("cancelAction"), "primaryAction"),
    ],
    ids=["done", "failed", "cancelled"],
)
def test_after_a_job_the_keyboard_has_what_comes_next(bench, end, name):
    bench.start()
    focused = "cancelAction" if name == "primaryAction" else "pauseAction"
    bench.find(focused).setFocus()
    end(bench)
    assert bench.window.focusWidget() is bench.find(name)


def test_the_keyboard_goes_from_top_to_bottom(bench):
    job_id = bench.add()
    notice = Notice(code="own-weights", severity="warning", params={"title": "x.safetensors"})
    plan = replace(bench.program.queue.rows[0].plan, notices=(notice,))
    bench.emit(events.PlanChosen(job_id=job_id, plan=plan))
    window, reached = bench.window, list[str]()
    window.setFocus()
    for _ in range(60):
        QTest.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
        reached.append(window.focusWidget().objectName())
    reached = reached[: reached.index("logButton") + 1]
    image = ["compareCanvas", "tryFrame", "playButton", "timelineStrip"]
    plan = ["outputFolder", "whyThisPlan", "noticeHead", "primaryAction", "logButton"]
    for wanted in (image, plan):
        first = reached.index(wanted[0])
        assert reached[first : first + len(wanted)] == wanted


def test_the_first_video_takes_three_actions(bench, tmp_path):
    film = tmp_path / "film.mp4"
    film.write_bytes(b"")
    bench.window.intake.take_drop(dropped(film))
    bench.hear()
    bench.press("primaryAction")
    assert bench.asked(commands.StartQueue)
    bench.finish()
    assert bench.find("primaryAction").text() == "Play"
    bench.press("primaryAction")
    assert bench.window.focusWidget() is bench.find("compareCanvas")


def test_speed_and_time_left_of_a_cancelled_job_are_gone(bench):
    bench.start()
    bench.advance(100)
    figure = bench.window.preview.figures.figure
    assert figure("frame").text.endswith("ms")
    bench.do("cancel")
    assert figure("frame").text == "–"
    assert "planned" in figure("left").text


def test_frames_of_a_segment_that_was_cut_short_are_not_called_finished(bench):
    job_id = bench.start()
    bench.advance(120)
    bench.emit(events.StageProgress(job_id=job_id, stage="write", done=200, total=240))
    bench.do("cancel")
    assert labels.state(bench.window.selected) == "Cancelled · 5 of 10 seconds finished"


def test_a_long_name_of_a_result_is_seen_from_its_beginning(bench):
    bench.add("a film with a name that is longer than the field for the name.mp4")
    assert bench.find("outputName").cursorPosition() == 0


def test_what_acts_on_another_film_than_the_selected_one_names_it(bench):
    bench.start("one.mp4")
    waits = bench.add("two.mp4")
    bench.select(waits)
    assert bench.find("pauseAction").text() == "Pause one.mp4"
    assert bench.find("cancelAction").toolTip() == "Cancel one.mp4"
    bench.add("three.mp4")
    bench.do("cancel")
    assert bench.find("primaryAction").text() == "Start queue (2)"


def shown_buttons(bench):
    """Text and place on the screen of each button below the card."""
    bench.hear()
    found = bench.find("decisionPanel").findChildren(QPushButton)
    return {
        one.objectName(): (one.text(), QRect(one.mapToGlobal(QPoint()), one.size()))
        for one in found
        if one.isVisible() and one.objectName().endswith("Action")
    }


@pytest.mark.parametrize("others", [["two.mp4"], []])
def test_pause_and_cancel_become_nothing_else_on_their_pixels(bench, others):
    for name in others:
        bench.add(name)
    bench.start("one.mp4")
    running = shown_buttons(bench)
    assert not bench.find("primaryAction").isVisible(), "a film runs"
    bench.press("cancelAction")
    after = shown_buttons(bench)
    expected = ["Start one.mp4", "Try again"] if others else ["Try again"]
    assert [text for text, _ in after.values()] == expected
    for name in ("pauseAction", "cancelAction"):
        assert not any(running[name][1].intersects(place) for _, place in after.values())


def test_a_cancelled_film_offers_another_try_while_another_one_runs(bench):
    cancelled = bench.start("one.mp4")
    bench.do("cancel")
    bench.start("two.mp4")
    bench.select(cancelled)
    assert bench.find("primaryAction").text() == "Try again"
    bench.press("primaryAction")
    assert bench.asked(commands.RetryJob)[-1].job_id == cancelled


def test_a_result_that_was_held_back_or_differs_can_be_accepted_or_tried_again(bench):
    job_id = bench.start("one.mp4")
    about = {"name": "one.mp4", "count": "3", "expected": "9"}
    bench.fail(ErrorInfo(code="result-held-back", case="frames-missing", params=about))
    assert "Only 3 of the 9 frames of one.mp4" in texts(bench.window)
    assert bench.find("primaryAction").text() == "Try again"
    assert bench.find("errorAction").text() == "Keep it anyway"
    bench.find("errorAction").click()
    assert bench.asked(commands.RetryJob) == [commands.RetryJob(job_id=job_id, accept=True)]
    bench.hear()
    bench.finish()
    assert not bench.find("secondAction").isVisible()

    job_id = bench.start("two.mp4")
    bench.finish(failed=("likeness",))
    assert bench.find("secondAction").text() == "Keep it anyway"
    assert bench.window.actions_["retry"].isEnabled()
    bench.find("secondAction").click()
    bench.hear()
    assert bench.asked(commands.RetryJob)[-1] == commands.RetryJob(job_id=job_id, accept=True)
    bench.finish(failed=("likeness",))
    assert not bench.find("secondAction").isVisible(), "it was accepted"


def test_choices_reach_the_selected_job_and_the_next_file(bench, qtbot):
    job_id = bench.add("one.mp4")
    with qtbot.waitSignal(bench.window.choices.changed, timeout=2000):
        qtbot.mouseClick(bench.find("segment-x4"), Qt.MouseButton.LeftButton)
    bench.hear()
    changed = bench.asked(commands.ChangeJob)
    assert [(c.job_id, c.settings.scale) for c in changed] == [(job_id, 4)]
    bench.add("two.mp4")
    assert bench.asked(commands.AddJob)[-1].settings.scale == 4
    before = len(bench.engine.commands)
    qtbot.mouseClick(bench.find("segment-1080p"), Qt.MouseButton.LeftButton)
    bench.do("start")  # does not overtake the choice
    sent = [type(command) for command in bench.engine.commands[before:]]
    assert sent.index(commands.ChangeJob) < sent.index(commands.StartQueue)


def test_closing_while_a_film_runs_asks_first(bench):
    bench.start()
    answers = [False, True]
    bench.patch.setattr(bench.window, "confirm_close", lambda: answers.pop(0))
    for is_accepted in (False, True):
        event = QCloseEvent()
        bench.window.closeEvent(event)
        assert event.isAccepted() is is_accepted


def test_the_queue_follows_the_keyboard(bench, qtbot):
    bench.add("one.mp4")
    second = bench.add("two.mp4")
    bench.window.queue_column.view.select(second)
    bench.window.actions_["move_up"].trigger()
    assert [row.source.name for row in bench.program.queue.rows] == ["two.mp4", "one.mp4"]
    assert bench.asked(commands.MoveJob)[-1].position == 0
    bench.window.actions_["remove"].trigger()
    bench.hear()
    assert [row.source.name for row in bench.program.queue.rows] == ["one.mp4"]


def test_the_gpu_and_its_memory_are_shown(bench):
    for gpu, shown in (
        (None, ["No NVIDIA GPU: runs on the CPU"]),
        (GPU, ["12.0 / 15.9 GB", "RTX 5070 Ti · 16 GB"]),
    ):
        bench.measure(gpu)
        assert all(text in texts(bench.window) for text in shown), shown


def test_progress_alone_does_not_rebuild_the_plan(bench):
    bench.start()
    bench.advance(10)
    built: list[object] = []
    bench.patch.setattr(bench.window.decision.plan, "show_job", built.append)
    for done in range(11, 60):
        bench.advance(done)
    assert built == []


def test_another_name_for_a_failed_job_can_be_typed_before_it_runs_again(bench):
    bench.start()
    params = {"name": "film_x2.mp4"}
    bench.fail(ErrorInfo(code="output-exists", case="before-start", params=params))
    assert bench.find("errorAction").text() == "Choose another name"
    before = len(bench.asked(commands.StartQueue))
    bench.press("errorAction")
    assert bench.program.queue.rows[0].state is JobState.WAITING
    assert len(bench.asked(commands.StartQueue)) == before
    field = bench.find("outputName")
    assert field.isEnabled()
    assert field.selectedText() == "film_x2"
