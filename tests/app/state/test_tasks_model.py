from typing import Any

import pytest

from app.bridge.engine_bridge import EventHub
from app.state.tasks_model import TasksModel
from engine.protocol import events
from engine.protocol.tasks import TaskKind
from tests.helpers.fake_states import OFFLINE

FILE, RUNTIME = TaskKind.MODEL_FILE, TaskKind.RUNTIME


class Known:
    """A model, the events that it gets and the signals that it emits."""

    def __init__(self) -> None:
        self.hub = EventHub()
        self.tasks = TasksModel(self.hub)
        self.heard: list[str] = []
        self.tasks.changed.connect(lambda kind: self.heard.append(f"{kind} changed"))
        self.tasks.progressed.connect(lambda kind, name: self.heard.append(f"{kind} {name}"))

    def say(self, event: Any, kind: TaskKind, subject: str, **about: Any) -> None:
        values = {"phase": "download", **about}
        self.hub.deliver(event(kind=kind, subject=subject, **values))


@pytest.fixture
def known() -> Known:
    return Known()


def test_figures_alone_are_told_apart_from_news(known):
    known.tasks.request(FILE, "download", "a")
    for done in (0.0, 1.0, 2.0):
        known.say(events.TaskProgress, FILE, "a", done=done, total=9.0)
    known.say(events.TaskProgress, FILE, "a", phase="verify")
    known.say(events.TaskDone, FILE, "a")
    changed, figures = "model-file changed", "model-file a"
    assert known.heard == [changed, changed, figures, figures, changed, changed]
    assert known.tasks.of(FILE) == {}


def test_what_runs_is_neither_set_back_nor_dismissed_and_an_error_stays_until_dismissed(known):
    known.say(events.TaskProgress, FILE, "a", done=3.0, total=9.0)
    known.tasks.request(FILE, "download", "a", "b")
    states = [(task.done, task.waits) for task in known.tasks.of(FILE).values()]
    assert states == [(3.0, False), (0.0, True)]
    known.say(events.TaskFailed, FILE, "a", error=OFFLINE)
    known.say(events.TaskProgress, FILE, "b")
    assert not known.tasks.runs(FILE, "a")
    for subject in "ab":
        known.tasks.dismiss(FILE, subject)
    assert list(known.tasks.of(FILE)) == ["b"]


def test_of_other_kinds_only_the_latest_is_kept(known):
    known.tasks.request(RUNTIME, "import", "torch.whl")
    known.say(events.TaskProgress, RUNTIME, "cu130", phase="unpack")  # recognised
    assert list(known.tasks.of(RUNTIME)) == ["cu130"]
    assert known.tasks.of(FILE) == {}
    known.say(events.TaskStopped, RUNTIME, "torch.whl", phase="import")
    assert known.tasks.latest(RUNTIME) is None
