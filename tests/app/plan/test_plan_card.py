from __future__ import annotations

import dataclasses
from pathlib import Path

from PySide6.QtWidgets import QLabel, QPushButton
from pytestqt.qtbot import QtBot

from app.plan.memory_bars import rows_of
from app.plan.notices import offers_of
from app.plan.plan_card import PlanCard
from app.state.job_row import Downgrade, JobRow, JobState
from engine.core.messages import message
from engine.protocol import commands, events
from engine.protocol.plan import Notice, Plan
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench
from tests.helpers.fakes import make_media, make_plan
from tests.helpers.plans import CARD, GIB, on_gpu, pretended

TOO_MUCH = Notice(
    code="plan-does-not-fit",
    case="gpu-memory",
    severity="refusal",
    params={
        "size": "20.0 GB",
        "budget": "15.0 GB",
        "advice": message("advice.lower-result", height=1080),
        "offers": "height=1080,width=0;model=lite;model=auto;nonsense=1",
    },
)


def plan() -> Plan:
    return make_plan(make_media(Path("film.mp4")))


def texts(bench: Bench) -> str:
    labels = bench.find("planCard").findChildren(QLabel)
    return "\n".join(label.text() for label in labels if label.isVisible())


def say_plan(bench: Bench, made: Plan) -> str:
    job_id = bench.add()
    bench.engine.plans[job_id] = made
    bench.engine.sink.emit(events.PlanChosen(job_id=job_id, plan=made))
    bench.hear()
    return job_id


def test_a_card_has_a_bar_for_each_stage_and_one_for_main_memory() -> None:
    rows = rows_of(on_gpu(plan()))
    assert [row.name for row in rows] == ["Encode", "Transformer", "Decode", "Main memory"]
    assert [row.limit // GIB for row in rows] == [15, 15, 15, 20]
    assert not any(row.is_over for row in rows)
    assert "15 min" in rows[0].tip


def test_a_stage_that_needs_too_much_is_the_one_that_is_marked() -> None:
    rows = rows_of(on_gpu(plan(), needed=16.0))
    assert [row.name for row in rows if row.is_over] == ["Decode"]


def test_the_processor_has_one_bar_with_every_stage_in_its_tool_tip() -> None:
    (row,) = rows_of(plan())
    assert row.name == "Memory"
    assert all(stage in row.tip for stage in ("Read", "Upscale", "Write"))


def test_a_plan_on_a_card_is_shown_with_its_limit_and_its_time(bench: Bench) -> None:
    say_plan(bench, on_gpu(plan()))
    shown = texts(bench)
    for text in ("It fits", "limit 15.0 GB", "11.4 GB", "45 ± 4 min", "time, measured"):
        assert text in shown
    assert not bench.find("speedTest").isVisible()
    assert not bench.find("plannedFor").isVisible()


def test_a_guessed_time_leads_to_the_speed_test(bench: Bench, qtbot: QtBot) -> None:
    bench.add()
    assert "time, a guess" in texts(bench)
    link = bench.button("speedTest")
    assert link.isVisible()
    with qtbot.waitSignal(bench.window.page_requested) as heard:
        link.click()
    assert heard.args == ["bench"]


def test_a_running_film_is_not_told_to_measure_first(bench: Bench) -> None:
    bench.add()
    bench.do("start")
    assert not bench.find("speedTest").isVisible()


def test_a_pretended_card_is_said_plainly_and_cannot_start(bench: Bench) -> None:
    say_plan(bench, pretended(on_gpu(plan())))
    shown = texts(bench)
    assert f"Planned for {CARD}: not in this machine" in shown
    assert "It would fit" in shown
    start = bench.button("primaryAction")
    assert not start.isEnabled()
    assert "not in this machine" in start.toolTip()


def test_a_plan_that_does_not_fit_offers_what_would(bench: Bench, qtbot: QtBot) -> None:
    made = dataclasses.replace(on_gpu(plan(), needed=20.0), notices=(TOO_MUCH,))
    job_id = say_plan(bench, made)
    buttons = bench.find("planCard").findChildren(QPushButton)
    offered = {b.text(): b for b in buttons if b.objectName().startswith("planOffer")}
    assert list(offered) == ["Make it 1080p", "Use Lite"]
    assert "This cannot start" in texts(bench)
    assert "20.0 GB" in bench.button("primaryAction").toolTip()
    offered["Make it 1080p"].click()
    bench.hear()
    changed = bench.engine.asked(commands.ChangeJob)
    assert [(c.job_id, c.settings.height) for c in changed] == [(job_id, 1080)]


def test_an_offer_that_was_taken_is_not_made_again() -> None:
    settings = JobSettings(model="lite", height=1080)
    assert offers_of(TOO_MUCH, settings)[0].text == "Choose automatically"


def test_why_a_plan_is_so_unfolds_with_its_alternatives(bench: Bench) -> None:
    job_id = say_plan(bench, on_gpu(plan()))
    assert "Clips of 45 frames." not in texts(bench)
    bench.button("whyThisPlan").click()
    bench.hear()
    shown = texts(bench)
    assert "The GPU's memory decides: 15.0 GB may be used" in shown
    assert "Clips of 45 frames." in shown
    assert "16.0 GB\ndoes not fit" in shown
    assert "9.0 GB\n+4 min 00 s" in shown
    bench.engine.sink.emit(events.PlanChosen(job_id=job_id, plan=plan()))  # has no reasons
    bench.hear()
    assert not bench.find("whyThisPlan").isVisible()


def test_a_smaller_plan_while_running_says_what_was_changed(bench: Bench) -> None:
    job_id = say_plan(bench, on_gpu(plan()))
    bench.do("start")
    notice = Notice(
        code="plan-changed",
        case="spilled",
        severity="info",
        params={
            "size": "1.2 GB",
            "change": message("change.clips", before=45, after=21),
            "gpu_user": message("reason.gpu-held", name="chrome.exe", size="2.1 GB"),
        },
    )
    smaller = on_gpu(plan(), needed=9.0)
    bench.engine.sink.emit(
        events.PlanDowngraded(job_id=job_id, plan=smaller, why="spilled", notice=notice)
    )
    bench.hear()
    assert "chrome.exe holds 2.1 GB" in texts(bench)
    assert any("memory spilled" in line and "21" in line for line in bench.program.log.lines)
    assert bench.program.telemetry.planned_bytes == smaller.device_bytes


def test_a_smaller_plan_without_words_still_says_why(qtbot: QtBot) -> None:
    card = PlanCard()
    qtbot.addWidget(card)
    row = JobRow(job_id="a", source=Path("film.mp4"), state=JobState.RUNNING, plan=plan())
    row.downgrades = (Downgrade("out-of-memory"),)
    card.show_job(row)
    shown = [label.text() for label in card.findChildren(QLabel)]
    assert any("memory ran out" in text for text in shown)


def test_a_step_that_lacks_main_memory_says_which_memory(bench: Bench) -> None:
    made = on_gpu(plan())
    assert made.reasons is not None
    step = dataclasses.replace(
        made.reasons.alternatives[0], device_bytes=12 * GIB, ram_bytes=30 * GIB
    )
    reasons = dataclasses.replace(made.reasons, alternatives=(step,))
    say_plan(bench, dataclasses.replace(made, reasons=reasons))
    bench.button("whyThisPlan").click()
    bench.hear()
    assert "30.0 GB\nmain memory: does not fit" in texts(bench)


def test_missing_model_files_keep_a_plan_for_the_users_gpu_from_starting(bench: Bench) -> None:
    missing = Notice(
        code="weights-missing",
        case="model",
        severity="refusal",
        params={"names": "a.safetensors", "file": "seedvr2-3b-fp16"},
    )
    made = dataclasses.replace(on_gpu(plan()), notices=(missing,))
    say_plan(bench, made)
    assert "This cannot start" in texts(bench)
    assert "It fits" not in texts(bench)
