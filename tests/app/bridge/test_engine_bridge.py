import threading
import time
from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from app.bridge.engine_bridge import EngineBridge, without_superseded
from engine.protocol import events
from engine.protocol.tasks import TaskKind
from tests.helpers.fakes import make_media


def progress(done: int, *, stage: str = "upscale", job_id: str = "a") -> events.StageProgress:
    return events.StageProgress(job_id=job_id, stage=stage, done=done, total=9)


def test_only_the_last_progress_of_a_stage_is_left_and_the_order_stays():
    started = events.JobStarted(job_id="a")
    paused = events.JobPaused(job_id="a")
    said = [progress(1), started, progress(2), progress(1, stage="verify"), paused, progress(3)]
    kept = without_superseded(said)
    assert kept == [started, said[3], paused, said[5]]
    said = [progress(1), progress(2, job_id="b")]
    assert without_superseded(said) == said
    said = [
        events.TaskProgress(kind=TaskKind.RUNTIME, subject="cu130", phase=phase, done=done)
        for phase, done in (("download", 1.0), ("download", 2.0), ("unpack", 1.0))
    ]
    said.append(events.TaskProgress(kind=TaskKind.MODEL_FILE, subject="cu130", phase="download"))
    assert without_superseded(said) == said[1:]


def test_an_event_from_another_thread_is_delivered_in_the_windows_thread(qtbot):
    bridge, heard = EngineBridge(), []
    bridge.subscribe(
        events.JobQueued, lambda event: heard.append((event, threading.current_thread()))
    )
    event = events.JobQueued(job_id="a", media=make_media(Path("film.mp4")))
    threading.Thread(target=bridge.emit, args=(event,)).start()
    qtbot.waitUntil(lambda: bool(heard), timeout=2000)
    ((came, thread),) = heard
    assert came is event
    assert thread is threading.main_thread()


def test_a_base_class_brings_all_its_events_in_order_also_after_a_slot_that_fails(qtbot):
    bridge, order = EngineBridge(), []
    bridge.subscribe(events.JobEvent, lambda event: order.append(("model", type(event))))
    bridge.subscribe(events.JobPaused, lambda event: order.append(("view", type(event))))
    for event in (
        events.JobPaused(job_id="a"),
        events.EngineReady(seconds=1.0),
        events.JobResumed(job_id="a"),
    ):
        bridge.emit(event)
    bridge.drain()
    assert order == [
        ("model", events.JobPaused),
        ("view", events.JobPaused),
        ("model", events.JobResumed),
    ]
    bridge, heard = EngineBridge(), []
    bridge.subscribe(events.JobPaused, lambda event: 1 / 0)  # keeps no event from the others
    bridge.subscribe(events.JobPaused, heard.append)
    with qtbot.captureExceptions() as errors:
        bridge.emit(events.JobPaused(job_id="a"))
        bridge.drain()
    assert len(heard) == len(errors) == 1


def test_nothing_runs_in_the_windows_thread_until_there_is_an_event(qtbot):
    parent, heard = QObject(), []
    bridge = EngineBridge(parent)
    timer = parent.findChild(QTimer)
    assert not timer.isActive()
    bridge.subscribe(events.JobPaused, heard.append)
    bridge.emit(events.JobPaused(job_id="a"))
    assert timer.isActive()
    qtbot.waitUntil(lambda: bool(heard), timeout=2000)
    qtbot.wait(2 * timer.interval())
    assert not timer.isActive()


def test_all_events_of_busy_threads_arrive_whenever_they_come(qtbot):
    bridge, heard = EngineBridge(), []
    bridge.subscribe(events.JobPaused, heard.append)

    def emit_many(name: str) -> None:
        for number in range(1000):  # more than one delivery takes
            bridge.emit(events.JobPaused(job_id=f"{name}{number}"))

    threads = [threading.Thread(target=emit_many, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    qtbot.waitUntil(lambda: len(heard) == 2000, timeout=5000)
    for thread in threads:
        thread.join()
    for name in "ab":
        assert [one.job_id for one in heard if one.job_id.startswith(name)] == [
            f"{name}{number}" for number in range(1000)
        ]


def test_what_takes_long_leaves_the_window_its_turns(qtbot):
    bridge, heard, turns = EngineBridge(), [], []

    def take(event: events.JobPaused) -> None:
        time.sleep(0.03)
        heard.append(event.job_id)

    bridge.subscribe(events.JobPaused, take)
    for name in "abc":
        bridge.emit(events.JobPaused(job_id=name))
    ticks = QTimer(interval=0)
    ticks.timeout.connect(lambda: turns.append(len(heard)))
    ticks.start()
    qtbot.waitUntil(lambda: len(heard) == 3, timeout=2000)
    assert heard == list("abc")
    assert {1, 2} & set(turns), "the event loop came round between them"


def test_progress_that_waited_is_dropped_for_what_came_meanwhile(qtbot):
    bridge, heard = EngineBridge(), []

    def take(event: events.JobEvent) -> None:
        heard.append(event)
        time.sleep(0.03)

    bridge.subscribe(events.JobEvent, take)
    bridge.emit(events.JobPaused(job_id="a"))
    bridge.emit(progress(1))
    assert bridge.drain()
    bridge.emit(last := progress(2))
    while bridge.drain():
        pass
    assert heard[1:] == [last]
