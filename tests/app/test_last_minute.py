from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from app import labels
from app.bridge.engine_bridge import EventHub
from app.gauges import Gauge
from app.last_minute import Curve, LastMinute
from app.state.telemetry_model import TelemetryModel, WorkTimes
from engine.protocol import events
from tests.app.conftest import Bench, texts
from tests.app.plan.test_plan_card import plan, say_plan
from tests.app.test_gauges import GPU
from tests.helpers.accessible import unnamed, unreadable
from tests.helpers.plans import on_gpu


def reading(at: float) -> events.Telemetry:
    return events.Telemetry(
        at=at, gpu=GPU, ram_total_mb=16384, ram_ours_mb=1024, ram_others_mb=2048, cpu_percent=50.0
    )


def popup() -> LastMinute | None:
    shown = QApplication.activePopupWidget()
    return shown if isinstance(shown, LastMinute) else None


def open_it(bench: Bench) -> LastMinute:
    bench.press("gauges")
    found = popup()
    assert found is not None
    return found


def test_readings_of_the_last_minute_are_kept_with_the_speed_of_their_time():
    hub = EventHub()
    model = TelemetryModel(hub)
    for second in range(100):
        progress = events.StageProgress(
            job_id="a", stage="write", done=1, total=9, frames_per_second=float(second + 1)
        )
        hub.deliver(progress)
        hub.deliver(reading(1000.0 + second))
    ages = [1099.0 - one.reading.at for one in model.history]
    assert ages == [float(age) for age in range(60, -1, -1)]
    assert [one.frames_per_second for one in model.history] == [100.0 - age for age in ages]


def test_of_several_gpus_the_chosen_one_is_shown(bench):
    other = replace(GPU, name="NVIDIA GeForce RTX 3060", number=1, total_mb=12288, ours_mb=2048)
    bench.measure(GPU)
    assert not open_it(bench).findChild(QWidget, "shownGpu").isVisible()
    QApplication.activePopupWidget().close()
    bench.measure(GPU, other)
    opened = open_it(bench)
    choice = opened.findChild(QWidget, "shownGpu")
    assert choice.isVisible()
    assert [choice.itemText(at) for at in range(choice.count())] == [GPU.name, other.name]
    assert choice.currentIndex() == 0
    choice.setCurrentIndex(1)
    choice.activated.emit(1)
    tips = {one.toolTip() for one in bench.window.top.findChildren(QWidget)}
    assert any("RTX 3060" in tip for tip in tips)
    bench.measure(GPU, other)
    assert choice.currentIndex() == 1
    model = bench.program.telemetry
    assert [one.reading.gpu for one in model.samples][-2:] == [other, other]
    assert model.reading.other_gpus == (GPU,)
    bench.engine.emit_telemetry(GPU)  # it is gone
    bench.hear()
    assert model.reading.gpu == GPU


def test_stages_are_timed_without_pauses_and_from_0_for_each_job():
    times = WorkTimes()

    def hear_all(*said: events.JobEvent) -> None:
        for event in said:
            times.hear(event)

    hear_all(
        events.JobStarted(job_id="a", at=0.0),
        events.StageStarted(job_id="a", stage="prepare", at=0.0),
        events.StageStarted(job_id="a", stage="run", at=2.0),
        events.JobPaused(job_id="a", at=5.0),
    )
    assert times.seconds(60.0) == {"prepare": 2.0, "run": 3.0}
    hear_all(events.JobResumed(job_id="a", at=100.0), events.JobCancelled(job_id="b", at=101.0))
    assert times.seconds(104.0) == {"prepare": 2.0, "run": 7.0}
    hear_all(
        events.StageStarted(job_id="a", stage="mux", at=110.0),
        events.JobCancelled(job_id="a", at=111.0),
    )
    assert times.seconds(500.0) == {"prepare": 2.0, "run": 13.0, "mux": 1.0}
    hear_all(events.StageStarted(job_id="a", stage="prepare", at=600.0))  # tried again
    assert times.seconds(601.0) == {"prepare": 1.0}


def test_times_inside_of_upscaling_are_those_of_the_job():
    times = WorkTimes()
    for event in (
        events.StageStarted(job_id="a", stage="run", at=0.0),
        events.StagesTimed(job_id="a", seconds={"encode": 1.0}),
        events.StagesTimed(job_id="a", seconds={"encode": 2.0, "decode": 4.0}),
        events.StagesTimed(job_id="b", seconds={"encode": 9.0}),
    ):
        times.hear(event)
    assert times.inside == {"encode": 2.0, "decode": 4.0}
    times.hear(events.StageStarted(job_id="c", stage="prepare"))
    assert not times.inside


def test_what_the_gpu_waits_for_is_named_while_it_waits(bench):
    bench.measure(GPU)
    bench.emit(events.StageStarted(job_id="a", stage="run", at=0.0))
    times = events.StagesTimed(job_id="a", seconds={"decode": 9.0})
    bench.emit(times)
    bench.emit(reading(1.0))
    opened = open_it(bench)
    waits = opened.findChild(QLabel, "gpuWaits")
    assert not waits.isVisible()
    bench.emit(replace(times, waits_for="read", waiting=0.437))
    bench.emit(reading(2.0))
    text = "The GPU waits for frames of the source: 44% of the last ten seconds"
    assert (waits.text(), waits.isVisible()) == (text, True)
    assert not unreadable(opened)
    described = [one.accessibleDescription() for one in bench.find("gauges").findChildren(Gauge)]
    assert any(text in one for one in described)
    bench.emit(events.JobPaused(job_id="a", at=3.0))
    bench.emit(reading(3.0))
    assert not waits.isVisible()


def test_a_click_on_any_gauge_opens_the_last_minute(bench):
    bench.measure(GPU)
    assert popup() is None
    gauges = bench.find("gauges")
    inside = bench.find("videoMemoryName")
    QTest.mouseClick(
        gauges, Qt.MouseButton.LeftButton, pos=inside.mapTo(gauges, inside.rect().center())
    )
    opened = popup()
    assert opened is not None
    assert opened.mapToGlobal(QPoint()).y() >= gauges.mapToGlobal(QPoint(0, gauges.height())).y()
    shown = texts(opened)
    for text in ("VRAM", "12.0 / 15.9 GB", "Upreel 10.0", "others 2.0", "RAM", "98 %", "Speed"):
        assert text in shown
    assert gauges._ram._figure.text() in shown, "the same figures"
    assert "planned peak" not in shown
    assert not unnamed(opened)
    opened.close()


def test_keys_open_and_close_the_last_minute(bench):
    bench.measure(GPU)
    gauges = bench.find("gauges")
    assert gauges.focusPolicy() & Qt.FocusPolicy.TabFocus
    assert gauges.accessibleName() == "Last minute"
    for opens, closes in (
        (Qt.Key.Key_Return, Qt.Key.Key_Return),
        (Qt.Key.Key_Enter, Qt.Key.Key_Escape),
        (Qt.Key.Key_Space, Qt.Key.Key_Space),
    ):
        QTest.keyClick(gauges, opens)
        opened = popup()
        assert opened is not None, opens
        QTest.keyClick(opened, closes)
        assert popup() is None, closes


def test_it_follows_readings_alone_and_is_gone_when_closed(bench):
    bench.measure(GPU)
    opened = open_it(bench)
    curve = opened.findChildren(Curve)[0]
    before = len(curve.points)
    bench.start()
    bench.advance(10)
    assert len(curve.points) == before  # progress comes ten times as often
    bench.measure(GPU)
    assert len(curve.points) == before + 1
    gone = []
    opened.destroyed.connect(lambda: gone.append(True))
    opened.close()
    QApplication.sendPostedEvents(opened, QEvent.Type.DeferredDelete)
    assert gone


def test_without_a_gpu_there_are_no_curves_of_it(bench):
    bench.measure(None)
    opened = open_it(bench)
    names = [label.text() for label in opened.findChildren(QLabel) if label.isVisible()]
    assert "VRAM" not in names
    assert "GPU" not in names
    assert {"RAM", "CPU", "Speed"} <= set(names)
    opened.close()


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_work_times_stand_next_to_the_planned_ones(bench, theme):
    bench.program.use_theme(theme)
    say_plan(bench, on_gpu(plan(), needed=11.4))
    bench.do("start")
    job_id = bench.program.queue.active.job_id
    bench.emit(events.StageStarted(job_id=job_id, stage="prepare", at=100.0))
    bench.emit(events.StageStarted(job_id=job_id, stage="run", at=103.0))
    bench.emit(reading(148.0))
    opened = open_it(bench)
    shown = [label.text().strip() for label in opened.findChildren(QLabel) if label.isVisible()]
    at = shown.index("Stages of this video")
    assert shown[at : at + 9] == [
        *("Stages of this video", "actual", "planned"),
        *("Preparing", "3 s", ""),
        *("Upscaling", "45 s", ""),
    ]
    stages = bench.program.telemetry.plan.stages
    inside = [one for one in stages if one.stage != "verify" and round(one.seconds)]
    assert inside
    rows = [(labels.stage_name(one.stage), "", labels.duration(one.seconds)) for one in inside]
    assert shown[at + 9 :] == [text for row in rows for text in row]
    seconds = {one.stage: 12.0 for one in inside} | {"load": 7.0, "wait-read": 0.2}
    bench.emit(events.StagesTimed(job_id=job_id, seconds=seconds))
    bench.emit(reading(149.0))
    shown = [label.text().strip() for label in opened.findChildren(QLabel) if label.isVisible()]
    rows = [(name, "12 s", planned) for name, _, planned in rows]
    rows.insert(0, ("Load model", "7 s", ""))
    assert shown[at + 9 :] == [text for row in rows for text in row]
    assert any("planned peak 11.4" in text for text in shown)
    assert not unreadable(opened)
    assert opened.width() <= 910
    assert opened.height() <= 432  # the smallest window
    opened.close()
    bench.program.use_theme("dark")
