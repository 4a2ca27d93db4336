from dataclasses import replace
from typing import Any

from app.bridge.engine_bridge import EventHub
from app.state.runtimes_model import RuntimesModel, Situation, status_of
from app.state.tasks_model import TasksModel, TaskState
from engine.core.messages import message
from engine.protocol import events
from engine.protocol.plan import Notice
from engine.protocol.tasks import TaskKind
from tests.helpers.fake_states import NO_GPU, OFFLINE, make_listed, make_older, make_runtime

S = Situation
HERE = {"state": "here", "done_bytes": 5 * 10**9}
OTHER_VERSION = {"state": "broken", "why": message("reason.runtime.other-version")}
FOREIGN = make_runtime(id="cu130-2.9.1-aa", driver="", bytes=0, **OTHER_VERSION)


class Known:
    """A model and the events that it gets."""

    def __init__(self) -> None:
        self.hub = EventHub()
        self.model = RuntimesModel(self.hub, TasksModel(self.hub))

    def say(self, event: events.Event) -> RuntimesModel:
        self.hub.deliver(event)
        return self.model


def about(kind: type[events.TaskEvent], **values: Any) -> events.TaskEvent:
    return kind(**{"kind": TaskKind.RUNTIME, "subject": "cu130", "phase": "download", **values})


def test_one_situation_for_each_state():
    for changes, situation in (
        ({}, S.OFFER),
        ({"state": "partial", "done_bytes": 1}, S.PARTIAL),
        ({"state": "busy"}, S.QUIET),
        ({"suits_program": False}, S.QUIET),
        (HERE, S.QUIET),  # and not chosen: as the user wants it
        (HERE | {"is_chosen": True}, S.READY),
        (HERE | {"is_chosen": True, "is_used": True}, S.QUIET),
        (HERE | {"is_used": True}, S.READY),  # back to the program's own
        ({"state": "broken", "why": "x"}, S.BROKEN),
        ({"state": "broken", "is_chosen": True}, S.BROKEN),
        ({"state": "blocked"}, S.BLOCKED),
        ({"state": "blocked", "is_chosen": True, "is_used": True}, S.BLOCKED),
        ({"state": "broken", "is_chosen": True, "is_used": True}, S.BROKEN),
    ):
        listed = make_listed(make_runtime(**changes), make_older())
        assert status_of(listed, None).situation is situation, changes


def test_one_situation_for_each_machine():
    for listed, situation in (
        (None, S.QUIET),
        (NO_GPU, S.QUIET),
        (make_listed(suited=""), S.OLD_GPU),
        (make_listed(suited="", driver="560.1", driver_needed="580.0"), S.OLD_DRIVER),
        (make_listed(follows_choice=False), S.QUIET),  # a checkout has its own torch
        (make_listed(make_runtime(), make_older(**HERE, is_chosen=True, is_used=True)), S.QUIET),
    ):
        assert status_of(listed, None).situation is situation


def test_a_runtime_of_another_version_is_offered_unless_a_task_runs():
    listed = make_listed(make_runtime(), replace(FOREIGN, is_chosen=True))
    status = status_of(listed, None)
    assert (status.situation, status.outdated) == (S.OFFER, True)
    assert status.runtime == listed.runtimes[0]
    nothing_suits = replace(listed, suited="")
    assert status_of(nothing_suits, None).situation is S.BROKEN
    task = TaskState(subject="cu130", phase="download")
    assert status_of(make_listed(), task).situation is S.BUSY
    failed = replace(task, error=OFFLINE)
    assert status_of(make_listed(), failed).situation is S.FAILED
    assert status_of(None, failed).runtime is None


def test_what_was_waved_away_stays_away_until_it_is_something_else():
    again = Known()
    model = Known().say(make_listed())
    assert not model.is_hidden
    model.hide(for_good=True)
    assert model.is_hidden
    again.model.restore_hidden(model.hidden)
    later = again.say(make_listed())
    assert later.is_hidden
    again.say(make_listed(make_runtime(torch="2.14.0+cu130")))
    assert not later.is_hidden
    later.hide(for_good=False)
    assert later.is_hidden
    assert later.hidden == model.hidden
    for number in range(20):
        again.say(make_listed(make_runtime(torch=f"2.{number}.0"))).hide(for_good=True)
    assert len(later.hidden) == 8
    assert "2.19.0" in later.hidden[-1]


def test_an_error_stays_until_it_was_read_and_good_news_until_the_next_request():
    known = Known()
    model = known.say(make_listed())
    model.request("download", "cu130")
    assert model.is_running
    known.say(about(events.TaskFailed, error=OFFLINE))
    known.say(make_listed())
    assert not model.is_running
    assert model.status.situation is S.FAILED
    model.dismiss()
    assert model.status.situation is S.OFFER
    notice = Notice(code="runtime-changed", severity="info")
    known.say(about(events.TaskDone, phase="use", notice=notice))
    assert model.done == notice
    model.request("use", "")
    assert model.done is None
