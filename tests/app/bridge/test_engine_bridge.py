from __future__ import annotations

import threading
from pathlib import Path

from pytestqt.qtbot import QtBot

from app.bridge.engine_bridge import EngineBridge, without_superseded
from engine.protocol import events
from tests.helpers.fakes import make_media


def progress(done: int, *, stage: str = "upscale", job_id: str = "a") -> events.StageProgress:
    return events.StageProgress(job_id=job_id, stage=stage, done=done, total=9)


def test_only_the_last_progress_of_a_stage_is_left_and_the_order_stays() -> None:
    started = events.JobStarted(job_id="a")
    paused = events.JobPaused(job_id="a")
    said = [progress(1), started, progress(2), progress(1, stage="verify"), paused, progress(3)]
    kept = without_superseded(said)
    assert kept == [started, said[3], paused, said[5]]


def test_progress_of_another_job_is_kept() -> None:
    said = [progress(1), progress(2, job_id="b")]
    assert without_superseded(said) == said


def test_an_event_from_another_thread_becomes_its_signal(qtbot: QtBot) -> None:
    bridge = EngineBridge()
    event = events.JobQueued(job_id="a", media=make_media(Path("film.mp4")))
    with qtbot.waitSignal(bridge.job_queued, timeout=2000) as heard:
        threading.Thread(target=bridge.emit, args=(event,)).start()
    assert heard.args == [event]


def test_every_event_of_the_engine_has_a_signal(qtbot: QtBot) -> None:
    bridge = EngineBridge()
    kinds = [
        kind
        for kind in vars(events).values()
        if isinstance(kind, type)
        and issubclass(kind, events.Event)
        and kind not in (events.Event, events.JobEvent, events.WeightsEvent, events.RuntimeEvent)
    ]
    for kind in kinds:
        words = "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.__name__)
        heard: list[object] = []
        getattr(bridge, words.strip("_")).connect(heard.append)
        event = object.__new__(kind)  # what it says does not matter here
        bridge._announce(event)
        assert len(heard) == 1, kind.__name__
        assert heard[0] is event


def test_of_the_progress_of_a_runtime_the_last_is_left() -> None:
    said = [
        events.RuntimeProgress(runtime="cu130", phase=phase, done_mb=done)
        for phase, done in (("download", 1.0), ("download", 2.0), ("unpack", 1.0))
    ]
    assert without_superseded(said) == said[1:]


def test_models_hear_an_event_before_those_who_ask_the_models(qtbot: QtBot) -> None:
    bridge, order = EngineBridge(), []
    bridge.job_paused.connect(lambda _: order.append("typed"))
    bridge.event_seen.connect(lambda _: order.append("model"))
    bridge.emit(events.JobPaused(job_id="a"))
    bridge.drain()
    assert order == ["model", "typed"]
