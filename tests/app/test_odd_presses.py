"""Presses in odd order: twice, too early, for several films; the texts stay true."""

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app import labels
from app.state.job_row import JobState
from engine.core.errors import DiskFull, SettingsError
from engine.protocol import commands, events
from tests.app.conftest import texts
from tests.app.controllers.test_after_queue import want
from tests.app.controllers.test_downloads import MODEL, refused
from tests.app.jobs.test_several_films import select
from tests.app.plan.test_plan_card import TOO_MUCH
from tests.app.test_narrow_window import cut_off, settle

FULL = DiskFull("folder", folder="/films").info()
LONG = "Grandma's birthday, tape 3 of 7, digitised.avi"


@pytest.fixture
def slow(bench):
    """An engine that answers nothing about the job that runs until `answer` is called."""
    send, kept = bench.engine.send, []
    late = commands.PauseJob | commands.ResumeJob | commands.CancelJob | commands.RetryJob

    def take(command):
        if isinstance(command, late):
            kept.append(command)
        else:
            send(command)

    def answer():
        for command in kept:
            send(command)
        kept.clear()
        bench.hear()

    bench.patch.setattr(bench.engine, "send", take)
    bench.kept, bench.answer = kept, answer
    return bench


def state_of(bench, job_id):
    return labels.state(bench.program.queue.find(job_id))


def refuse_plan(bench, name="refused.mp4"):
    """A film whose plan cannot start."""
    bench.engine.notices = (TOO_MUCH,)
    job_id = bench.add(name)
    bench.engine.notices = ()
    return job_id


# Presses before the engine has answered


def test_cancel_says_so_and_is_sent_once_and_the_switch_stays(slow):
    slow.add("other.mp4")
    job_id = slow.start("film.mp4")
    running = slow.program.queue.active.job_id
    assert running != job_id
    pause, cancel = slow.find("pauseAction"), slow.find("cancelAction")
    cancel.setFocus()
    slow.press("cancelAction")
    slow.press("cancelAction")
    slow.do("pause")
    assert [type(one) for one in slow.kept] == [commands.CancelJob]
    assert (cancel.text(), cancel.isEnabled(), pause.isEnabled()) == ("Cancelling …", False, False)
    assert state_of(slow, running) == "Cancelling …"
    assert not labels.remaining(slow.program.queue.find(running))
    assert not slow.find("stopsAfterThis").isChecked()
    slow.answer()
    assert slow.window.focusWidget() is slow.find("primaryAction"), "as after any end"
    slow.do("start")
    assert (cancel.text(), cancel.isEnabled(), pause.text()) == ("Cancel", True, "Pause")
    assert not slow.find("stopsAfterThis").isChecked()


def test_pause_and_resume_are_sent_once_and_keep_the_keyboard(slow, two_presses):
    job_id = slow.start()
    pause = slow.find("pauseAction")
    for text, asked, after in (
        ("Pausing …", commands.PauseJob, "Resume"),
        ("Resume", commands.ResumeJob, "Pause"),
    ):
        pause.setFocus()
        slow.press("pauseAction")
        slow.do("pause")
        assert [type(one) for one in slow.kept] == [asked]
        assert (pause.text(), pause.isEnabled()) == (text, False)
        slow.answer()
        assert (pause.text(), pause.isEnabled()) == (after, True)
        assert slow.window.focusWidget() is pause
    slow.press("pauseAction")
    assert state_of(slow, job_id) == "Pausing …"
    slow.press("cancelAction")
    assert state_of(slow, job_id) == "Cancelling …"
    slow.answer()
    assert state_of(slow, job_id) == "Cancelled"


def test_a_double_click_on_pause_does_not_resume(bench):
    bench.start()
    for _ in range(2):
        QTest.mouseClick(bench.find("pauseAction"), Qt.MouseButton.LeftButton)
        bench.hear()
    assert bench.program.queue.active.state is JobState.PAUSED


@pytest.mark.parametrize("end", ["cancel", "fail", "doubt"])
def test_try_again_pressed_twice_is_sent_once(slow, end):
    slow.start()
    if end == "fail":
        slow.fail(FULL)
    elif end == "doubt":
        slow.finish(failed=("likeness",))
    else:
        slow.do("cancel")
        slow.answer()
    for _ in range(2):
        slow.do("retry")
        slow.do("accept")
    assert len(slow.kept) == 1
    slow.answer()
    (row,) = slow.program.queue.rows
    assert (row.state, row.asked) == (JobState.WAITING, "")


def test_a_name_for_a_failed_job_asked_for_twice_lets_it_wait_once(slow):
    slow.start()
    slow.fail(FULL)
    slow.do("rename")
    slow.do("rename")
    assert len(slow.kept) == 1


def test_a_double_click_on_download_stops_nothing(bench):
    refused(bench, MODEL)
    primary = bench.find("primaryAction")
    bench.press("primaryAction")
    assert primary.text() == "Stop download"
    bench.press("primaryAction")
    assert primary.text() == "Stop download"
    assert not bench.asked(commands.StopTask)


# Videos that cannot start


def test_start_names_the_film_that_it_starts_where_another_one_is_selected(bench):
    other = bench.add("other.mp4")
    cannot = refuse_plan(bench)
    bench.select(cannot)
    assert "Cannot start" in texts(bench.find("planCard"))
    assert bench.find("primaryAction").text() == "Start other.mp4"
    bench.select(other)
    assert bench.find("primaryAction").text() == "Start"


def test_a_refused_film_waits_while_the_queue_runs_and_ends(bench, computer):
    want(bench, "sound")
    cannot = refuse_plan(bench)
    other = bench.add("other.mp4")
    bench.patch.setattr(bench.engine, "_change", lambda _command: None)  # as refused as before
    bench.do("start")
    assert bench.program.queue.active.job_id == other
    bench.finish()
    assert state_of(bench, cannot) == "Cannot start yet"
    assert computer.asked == ["sound"], "nothing else can start"
    assert not bench.program.controller.goes_on
    late = bench.add("late.mp4")
    assert state_of(bench, late) == "Queued", "it waits for Start"


def test_start_plans_refused_films_again(bench):
    cannot = refuse_plan(bench)
    bench.add("other.mp4")
    bench.do("start")
    assert bench.program.queue.active.job_id == cannot, "the reason was gone"


def test_films_that_cannot_start_are_planned_again_when_the_user_comes_back(bench):
    refuse_plan(bench)
    other = refuse_plan(bench, "other.mp4")
    assert not bench.find("primaryAction").isEnabled()
    QApplication.sendEvent(bench.window, QEvent(QEvent.Type.WindowActivate))
    bench.hear()
    assert bench.find("primaryAction").isEnabled(), "the reason was gone"
    assert state_of(bench, other) == "Queued"
    count = len(bench.asked(commands.ChangeJob))
    QApplication.sendEvent(bench.window, QEvent(QEvent.Type.WindowActivate))
    assert len(bench.asked(commands.ChangeJob)) == count


def test_a_film_of_an_earlier_run_that_cannot_start_does_not_leave_the_queue_running(bench):
    bench.engine.notices = (TOO_MUCH,)
    bench.program.controller.add_file(Path("film.mp4"), starts_at_once=True)
    bench.hear()
    bench.engine.notices = ()
    bench.choose(scale=4)
    assert bench.program.queue.active is None
    assert bench.find("primaryAction").text() == "Start"


def test_a_film_that_could_not_start_is_planned_again_when_it_is_tried_again(bench):
    cannot = bench.start()
    plan = replace(bench.engine.plans[cannot], notices=(TOO_MUCH,))
    bench.emit(events.PlanChosen(job_id=cannot, plan=plan))  # at its turn
    bench.fail(FULL)
    bench.do("retry")
    assert bench.program.queue.find(cannot).plan.fits
    sent = [type(one) for one in bench.engine.commands]
    order = [commands.ChangeJob, commands.RetryJob, commands.StartQueue]
    assert [one for one in sent if one in order][-3:] == order
    bench.engine._start_next()
    bench.hear()
    assert bench.program.queue.active.job_id == cannot
    other = bench.add("other.mp4")
    assert bench.program.controller.goes_on
    bench.finish()
    assert bench.program.queue.active.job_id == other


def test_a_failed_film_offers_another_try_where_only_refused_ones_wait(bench):
    failed = bench.start("film.mp4")
    bench.fail(FULL)
    refuse_plan(bench)
    bench.select(failed)
    assert bench.find("primaryAction").text() == "Try again"


# Settings that are impossible


def test_after_an_impossible_setting_nothing_of_the_old_plan_is_shown(bench):
    job_id = bench.add()
    bench.choose(height=2160)
    row, name = bench.window.selected, bench.find("outputName")
    assert (labels.target(row), name.text()) == ("3840×2160", "film_2160p.mp4")
    bench.patch.setattr(bench.engine, "_change", lambda _command: None)
    bench.choose(height=0, scale=2, start="5", stop="3")
    error = SettingsError("end-before-start").info()
    bench.emit(events.PlanFailed(job_id=job_id, error=error))
    assert labels.target(row) == "×2"
    assert (name.text(), name.isVisible()) == ("", True)
    assert "Plan:" not in texts(bench.window.foot)
    assert bench.program.queue.to_do == []
    before = len(bench.asked(commands.ChangeJob))
    name.editingFinished.emit()
    assert len(bench.asked(commands.ChangeJob)) == before, "nothing was typed"
    own = Path("films/own.mp4")
    bench.program.controller.choose(job_id, row.settings, own)
    bench.emit(events.PlanFailed(job_id=job_id, error=error))
    assert name.text() == "own.mp4"


# Several films


def test_changes_are_counted_for_the_films_that_can_change(bench):
    films = [bench.start("0.mp4"), *(bench.add(f"{n}.mp4") for n in range(1, 3))]
    select(bench, [films[1], films[0], films[2]])
    assert "Changes apply to 2 of 3 selected" in texts(bench.window.choices)
    bench.select(films[1])
    select(bench, films[1:])
    assert "Changes apply to 2 videos" in texts(bench.window.choices)
    bench.finish()
    assert bench.program.queue.active.job_id == films[1]


def test_all_selected_films_but_the_one_that_runs_are_removed(bench):
    runs = bench.start("0.mp4")
    for n in range(1, 3):
        bench.add(f"{n}.mp4")
    view = bench.window.queue_column.view
    bench.select(runs)
    assert not bench.window.actions_["remove"].isEnabled()
    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClick(view, Qt.Key.Key_Delete)
    bench.hear()
    assert [row.job_id for row in bench.program.queue.rows] == [runs]
    bench.do("undo")
    assert bench.program.queue.rowCount() == 3


def test_failed_films_among_others_are_tried_again(bench):
    failed = bench.start("0.mp4")
    bench.fail(FULL)
    waits = bench.add("1.mp4")
    select(bench, [waits, failed])
    assert bench.window.actions_["retry"].isEnabled()
    bench.do("retry")
    assert [one.job_id for one in bench.asked(commands.RetryJob)] == [failed]


def test_there_is_nothing_to_stop_before_where_one_film_is_alone(bench):
    bench.start()
    switch = bench.find("stopsAfterThis")
    assert not switch.isVisible()
    other = bench.add("other.mp4")
    assert switch.isVisible()
    bench.program.controller.remove([other])
    bench.hear()
    assert not switch.isVisible()


# Room for the texts


@pytest.mark.parametrize("others", [1, 2, 12])
def test_no_text_of_two_buttons_is_cut(bench, others):
    for number in range(others):
        bench.add(LONG if others == 1 else f"{number}.mp4")
    needs = refused(bench, MODEL)
    bench.engine.notices = ()
    bench.select(needs)
    panel, primary, second = (
        bench.find(n) for n in ("decisionPanel", "primaryAction", "secondAction")
    )

    def cut_off_in(language):
        bench.use_language(language)
        settle()
        return list(cut_off(panel))

    for language in ("zh_CN", "en"):
        assert cut_off_in(language) == []
        assert second.isVisible()
        for one in (primary, second):
            whole = one.accessibleName()
            assert one.toolTip() == whole
            assert whole.replace("…", "") == whole
    bench.do("start")
    for language in ("en", "zh_CN"):
        assert cut_off_in(language) == [], "Pause names the film that runs"
    bench.do("pause")
    for language in ("zh_CN", "en"):
        assert cut_off_in(language) == []
    for end in ("cancel", "finish"):
        if end == "finish":
            bench.select(bench.program.queue.rows[0].job_id)
            bench.do("retry")
            bench.finish(failed=("likeness",))
            bench.do("cancel")
        else:
            bench.do("cancel")
        bench.select(bench.program.queue.rows[0].job_id)
        for language in ("en", "zh_CN"):
            assert cut_off_in(language) == [], end
