from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPersistentModelIndex, Qt
from pytestqt.qtbot import QtBot

from app.bridge.engine_bridge import EventHub
from app.state.job_row import JobState
from app.state.queue_model import QueueModel
from engine.core.errors import ErrorInfo
from engine.protocol import events
from engine.protocol.plan import Notice
from engine.settings.schema import JobSettings
from tests.helpers.fakes import grey, make_media, make_plan, make_report

MEDIA = make_media(Path("film.mp4"))
PLAN = make_plan(MEDIA)


@pytest.fixture
def model(qtbot: QtBot) -> QueueModel:
    hub = EventHub()
    made = QueueModel(hub)
    made.hub = hub  # for `play`
    for name in ("a", "b", "c"):
        made.add(name, Path(f"{name}.mp4"), JobSettings())
    return made


def play(model: QueueModel, *said: events.Event) -> None:
    for event in said:
        model.hub.deliver(event)


def test_a_job_goes_through_its_states(model):
    row = model.find("a")
    assert row.state is JobState.READING
    play(model, events.JobQueued(job_id="a", media=MEDIA, picture=grey()))
    assert row.state is JobState.WAITING
    assert row.thumbnail is not None
    heard = model.data(model.index(0), Qt.ItemDataRole.AccessibleTextRole)
    assert heard == "a.mp4, 480×270 → ×2, Queued"
    play(model, events.JobStarted(job_id="a", total=240))
    assert row.state is JobState.RUNNING
    play(model, events.StageProgress(job_id="a", stage="upscale", done=60, total=240))
    assert row.share == 0.25
    play(model, events.JobPaused(job_id="a"))
    assert row.state is JobState.PAUSED
    play(model, events.JobResumed(job_id="a"))
    play(model, events.JobFinished(job_id="a", report=make_report(PLAN)))
    assert row.state is JobState.DONE
    assert row.result == PLAN.output


def test_a_warning_that_comes_again_is_there_once(model):
    row = model.find("a")
    notices = [Notice(code=code, severity="warning") for code in ("source-missing", "gpu-lost")]
    play(model, *(events.Warned(job_id="a", notice=one) for one in (*notices, notices[0])))
    assert sorted(one.code for one in row.warnings) == ["gpu-lost", "source-missing"]


def test_a_job_that_starts_while_it_is_removed_is_back(model):
    play(model, *(events.JobQueued(job_id=name, media=MEDIA) for name in "abc"))
    for name in "ab":
        model.forget(name)
    play(model, events.JobStarted(job_id="b", total=240))
    assert [row.job_id for row in model.rows] == ["b", "c"]
    assert model.active is model.find("b")
    play(model, events.JobRemoved(job_id="a"), events.JobStarted(job_id="a", total=240))
    assert model.find("a") is None
    play(model, events.JobRemoved(job_id="c"))
    assert model.find("c") is None, "the engine took it away"


def test_a_job_that_was_put_back_before_its_removal_is_reported_stays(model):
    row = model.find("b")
    model.forget("b")
    model.insert(row, 1)
    play(model, events.JobRemoved(job_id="b"))
    assert model.position("b") == 1
    model.forget("b")
    model.insert(row, 1)
    play(model, events.JobStarted(job_id="b", total=240))
    assert model.rowCount() == 3


def test_an_error_of_a_job_or_its_plan_goes_with_the_next_answer(model):
    row = model.find("a")
    full = ErrorInfo(code="disk-full", case="folder", params={"folder": "/films"})
    play(model, events.JobFailed(job_id="a", error=full))
    assert row.state is JobState.FAILED
    play(model, events.JobQueued(job_id="a", media=MEDIA))
    assert (row.state, row.error) == (JobState.WAITING, None)
    error = ErrorInfo(code="container-mismatch", case="no-suffix", params={"name": "a"})
    play(model, events.PlanFailed(job_id="a", error=error))
    assert (row.state, row.error) == (JobState.WAITING, error)
    play(model, events.PlanChosen(job_id="a", plan=PLAN))
    assert (row.error, row.media) == (None, MEDIA)
    examined = replace(MEDIA, bytes=1)
    play(model, events.PlanChosen(job_id="a", plan=PLAN, media=examined))
    assert row.media == examined
    rear = replace(MEDIA, video_stream=1)
    play(model, events.PlanChosen(job_id="a", plan=PLAN, media=rear))
    assert row.media == rear


def test_rows_move_and_go_as_qt_expects(model, qtmodeltester):
    qtmodeltester.check(model)
    assert model.move("a", 2)
    assert not model.move("a", 9)
    play(model, events.JobPaused(job_id="other"), events.JobRemoved(job_id="other"))
    assert [row.job_id for row in model.rows] == ["b", "c", "a"]
    play(model, events.JobRemoved(job_id="c"))
    assert [row.job_id for row in model.rows] == ["b", "a"]


def test_checks_do_not_set_the_frames_back_and_a_refusal_keeps_its_reason(model):
    play(model, events.JobStarted(job_id="a", total=240))
    play(model, events.StageProgress(job_id="a", stage="upscale", done=240, total=240))
    play(model, events.StageStarted(job_id="a", stage="verify"))
    play(model, events.StageProgress(job_id="a", stage="verify", done=60, total=240))
    row = model.find("a")
    assert (row.share, row.stage_share) == (1.0, 0.25)
    reason = ErrorInfo(code="unreadable-media", case="undecodable", params={"name": "b.mp4"})
    play(model, events.JobRejected(job_id="b", source="b.mp4", error=reason))
    later = ErrorInfo(code="unknown-job", case="none", params={"job": "a"})
    play(model, events.PlanFailed(job_id="b", error=later))
    assert model.find("b").error == reason


def test_the_time_left_is_that_of_videos_that_run_or_can_start(model):
    refusal = Notice(code="pretended-card", severity="refusal", params={"gpu": ""})
    refused = replace(PLAN, seconds=50.0, notices=(refusal,))
    assert [row.seconds_to_go for row in model.to_do] == [None, None, None]
    for name, plan in (("a", PLAN), ("b", replace(PLAN, seconds=100.0)), ("c", refused)):
        play(model, events.JobQueued(job_id=name, media=MEDIA))
        play(model, events.PlanChosen(job_id=name, plan=plan))
    play(model, events.JobStarted(job_id="a", done=60, total=240))
    assert model.find("a").seconds_to_go == pytest.approx(PLAN.seconds * 0.75), "it is preparing"
    progress = {"stage": "upscale", "done": 60, "total": 240, "seconds_left": 30.0}
    play(model, events.StageProgress(job_id="a", **progress))
    assert [row.seconds_to_go for row in model.to_do] == [30, 100]


def test_views_follow_a_row_that_moves_down_or_up(model):
    kept = {name: QPersistentModelIndex(model.index(at)) for at, name in enumerate("abc")}
    for job_id, to in (("a", 2), ("a", 1), ("b", 2), ("b", 0)):
        model.move(job_id, to)
        for name, index in kept.items():
            assert index.row() == model.position(name), (job_id, to, name)


def test_changes_made_together_are_reported_once_also_after_an_error(model):
    reports = []
    model.queue_changed.connect(lambda: reports.append(model.rowCount()))
    with pytest.raises(ZeroDivisionError), model.together():
        model.forget("a")
        with model.together():
            model.forget("b")
        assert not reports, "the outer block goes on"
        raise ZeroDivisionError
    assert reports == [1]
    model.forget("c")
    assert reports == [1, 0]
