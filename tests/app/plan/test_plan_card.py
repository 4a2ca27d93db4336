import dataclasses
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton, QWidget

from app.engine_messages import text
from app.plan.folded_notice import FoldedNotice
from app.plan.memory_bars import rows_of
from app.plan.notices import offers_of
from app.plan.streams import stream_lines
from app.state.job_row import JobRow
from app.widgets.plain import Label
from engine.cli.formatting import plan_words
from engine.core.messages import message
from engine.protocol import commands, events
from engine.protocol.plan import Notice, PassPlan, Plan, Reasons
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench, part, texts
from tests.helpers.fakes import make_media, make_plan
from tests.helpers.plans import GIB, GPU, a_media, on_gpu, pretended, to_download

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


SMALLER = {
    "size": "1.2 GB",
    "change": message("change.clips", before=45, after=21),
    "gpu_user": message("reason.gpu-held", name="chrome.exe", size="2.1 GB"),
}


def plan() -> Plan:
    return make_plan(make_media(Path("film.mp4")))


def said(bench: Bench) -> str:
    return texts(bench.find("planCard"))


def say_plan(bench: Bench, made: Plan) -> str:
    job_id = bench.add()
    bench.engine.plans[job_id] = made
    bench.emit(events.PlanChosen(job_id=job_id, plan=made))
    return job_id


def test_a_card_has_a_bar_for_each_stage_and_one_for_main_memory():
    rows = rows_of(on_gpu(plan()))
    assert [row.name for row in rows] == ["Encode", "Transformer", "Decode", "RAM"]
    assert [row.limit // GIB for row in rows] == [15, 15, 15, 20]
    assert not any(row.is_over for row in rows)
    assert "15 min" in rows[0].tip
    rows = rows_of(on_gpu(plan(), needed=16.0))
    assert [row.name for row in rows if row.is_over] == ["Decode"]
    (row,) = rows_of(plan())  # on the processor
    assert row.name == "Memory"
    assert all(stage in row.tip for stage in ("Read", "Upscale", "Write"))


def test_a_plan_on_a_card_is_shown_with_its_limit_and_its_time(bench):
    say_plan(bench, on_gpu(plan()))
    shown = said(bench)
    for one in ("Fits into memory", "11.4 / 15.0 GB", "41–50 min", "time, measured"):
        assert one in shown
    assert not bench.find("speedTest").isVisible()
    assert not bench.find("plannedFor").isVisible()


def test_memory_leaves_its_room_to_a_refusal_that_is_about_something_else(bench):
    there = Notice(
        code="output-exists", case="before-start", severity="refusal", params={"name": "film.mp4"}
    )
    job_id = say_plan(bench, on_gpu(plan()))
    for refusals, has_bar in (((), True), ((TOO_MUCH,), True), ((there,), False)):
        made = dataclasses.replace(on_gpu(plan()), notices=refusals)
        bench.emit(events.PlanChosen(job_id=job_id, plan=made))
        assert bench.find("memoryBar0").isVisible() == has_bar
        assert bench.find("whyThisPlan").isVisible(), "it needs no scrolling"


def test_no_disk_is_shown_of_a_folder_that_is_not_there(bench):
    job_id = say_plan(bench, plan())
    assert bench.find("plan-disk").isVisible()
    away = dataclasses.replace(plan(), free_disk_bytes=None)
    bench.emit(events.PlanChosen(job_id=job_id, plan=away))
    assert not bench.find("plan-disk").isVisible()


def test_a_guessed_time_leads_to_the_speed_test(bench, qtbot):
    job_id = say_plan(bench, dataclasses.replace(on_gpu(plan()), is_measured=False))
    link = bench.find("speedTest")
    assert "time, estimated" in said(bench)
    assert link.isVisible()
    assert "this GPU" in link.toolTip()
    bench.emit(events.PlanChosen(job_id=job_id, plan=plan()))  # on the processor
    assert "GPU" not in link.toolTip()
    with qtbot.waitSignal(bench.window.actions_["bench"].triggered):
        link.click()
    bench.do("start")
    assert not link.isVisible()


def test_a_pretended_card_is_said_plainly_and_cannot_start(bench):
    say_plan(bench, pretended(on_gpu(plan())))
    shown = said(bench)
    assert f"Planned for {GPU}, which is not in this computer" in shown
    assert "Would fit into memory" in shown
    start = bench.find("primaryAction")
    assert not start.isEnabled()
    assert "not in this computer" in start.toolTip()


def test_a_plan_that_does_not_fit_offers_what_would(bench, qtbot):
    made = dataclasses.replace(on_gpu(plan(), needed=20.0), notices=(TOO_MUCH,))
    job_id = say_plan(bench, made)
    buttons = bench.find("planCard").findChildren(QPushButton)
    offered = {b.text(): b for b in buttons if b.objectName().startswith("planOffer")}
    assert list(offered) == ["Change to 1080p", "Use Lite"]
    assert "Cannot start" in said(bench)
    assert "20.0 GB" in bench.find("primaryAction").toolTip()
    taken = JobSettings(model="lite", height=1080)
    assert offers_of(TOO_MUCH, taken)[0].text == "Choose automatically"
    quicker = dataclasses.replace(TOO_MUCH, params={"offers": "speed=auto"})
    (offer,) = offers_of(quicker, JobSettings(speed="slow"))
    assert offer.text == "Encoder speed: Automatic"
    offered["Change to 1080p"].click()
    bench.hear()
    changed = bench.asked(commands.ChangeJob)
    assert [(c.job_id, c.settings.height) for c in changed] == [(job_id, 1080)]


BARS = Notice(
    code="black-bars",
    severity="info",
    params={"size": "720x576", "picture": "720x432", "offers": "black_bars=put-back"},
)
COMBED = Notice(
    code="interlaced-as-frames", severity="warning", params={"offers": "deinterlace=auto"}
)


def test_each_finding_of_a_source_has_a_button_that_helps(bench):
    made = dataclasses.replace(plan(), notices=(COMBED, BARS))
    job_id = say_plan(bench, made)
    assert "the visible part is 720×432 of 720×576" not in said(bench)
    assert not remedies(bench), "a line each"
    unfold(bench)
    assert "the visible part is 720×432 of 720×576" in said(bench)
    assert list(remedies(bench)) == ["Black bars: Crop and add again"], "one is chosen already"
    remedies(bench)["Black bars: Crop and add again"].click()
    bench.hear()
    changed = bench.asked(commands.ChangeJob)
    assert [(c.job_id, c.settings.black_bars) for c in changed] == [(job_id, "put-back")]
    off = JobSettings(deinterlace="off")
    assert [offer.text for offer in offers_of(COMBED, off)] == ["Deinterlacing: Automatic"]
    rear = dataclasses.replace(BARS, params={"offers": "video_stream=1"})
    assert [offer.text for offer in offers_of(rear, off)] == ["Video track: 1"]
    wrong = dataclasses.replace(BARS, params={**BARS.params, "offers": "aspect=4:3"})
    bench.emit(events.PlanChosen(job_id=job_id, plan=dataclasses.replace(made, notices=(wrong,))))
    assert list(remedies(bench)) == ["Aspect ratio: 4:3"]
    refused = dataclasses.replace(made, notices=(TOO_MUCH, wrong))
    bench.emit(events.PlanChosen(job_id=job_id, plan=refused))
    assert not remedies(bench), "first it has to fit"


def test_warnings_are_whole_and_notes_lie_behind_one_line(bench):
    combed = Notice(code="deinterlaced", case="frames", severity="info", params={"rate": "25"})
    notes = BARS, combed
    job_id = say_plan(bench, dataclasses.replace(plan(), notices=(*notes, COMBED)))
    card = bench.find("planCard")
    warning, folded = (one for one in card.findChildren(FoldedNotice) if one.isVisible())
    (whole,) = (one for one in warning.findChildren(Label) if one.isVisible() and one.text())
    assert whole.text() == text(COMBED)
    assert whole.wordWrap()
    assert card.minimumSizeHint().width() < 290, "it never needs more than its column"
    assert "2 notes" in texts(folded)
    assert text(BARS) not in said(bench)
    unfold(bench)
    assert text(BARS) in said(bench)
    bench.emit(events.PlanChosen(job_id=job_id, plan=dataclasses.replace(plan(), notices=notes)))
    assert text(BARS) in said(bench), "it stays open"


def remedies(bench: Bench) -> dict[str, QPushButton]:
    """Buttons under lines, by their texts."""
    buttons = bench.find("planCard").findChildren(QPushButton)
    found = [b for b in buttons if b.objectName().startswith("planRemedy") and b.isVisible()]
    return {button.text(): button for button in found}


def unfold(bench: Bench) -> None:
    """Open every notice, as a user does."""
    for notice in bench.find("planCard").findChildren(FoldedNotice):
        if notice.isVisible() and not notice.is_open:
            QTest.mouseClick(notice.findChild(QWidget, "noticeHead"), Qt.MouseButton.LeftButton)
    bench.hear()


def test_why_a_plan_is_so_unfolds_with_its_alternatives(bench):
    job_id = say_plan(bench, on_gpu(plan()))
    assert not bench.find("whySheet").isVisible()
    bench.press("whyThisPlan")
    shown = texts(bench.find("whySheet"))
    assert "GPU memory limits this plan: 15.0 GB available" in shown
    assert "Clips of 45 frames." in shown
    assert "16.0 GB\ndoes not fit" in shown
    assert "9.0 GB\n+4 min 00 s" in shown
    assert all(stage in shown for stage in ("Encode", "Transformer", "Decode", "RAM"))
    assert "GPU memory and RAM" in shown
    assert "GPU memory" in said(bench), "the fullest"
    assert not any(stage in said(bench) for stage in ("Encode", "Decode"))
    assert part(bench.find("planCard"), "memoryBar0").toolTip().startswith("Decode: ")
    bench.use_language("zh_CN")
    assert "显存和内存" in texts(bench.find("whySheet"))
    assert "VAE 编码" in texts(bench.find("whySheet")), "the format of the file is 编码"
    bench.use_language("en")
    bench.emit(events.PlanChosen(job_id=job_id, plan=plan()))
    assert "Clips of 45 frames." not in texts(bench.find("whySheet"))
    made = on_gpu(plan())
    step = dataclasses.replace(
        made.reasons.alternatives[0], device_bytes=12 * GIB, ram_bytes=30 * GIB
    )
    reasons = dataclasses.replace(made.reasons, alternatives=(step,))
    more = dataclasses.replace(made, reasons=reasons)
    bench.emit(events.PlanChosen(job_id=job_id, plan=more))
    assert "30.0 GB\nRAM: does not fit" in texts(bench.find("whySheet"))


def test_a_smaller_plan_while_running_says_what_was_changed(bench):
    job_id = say_plan(bench, on_gpu(plan()))
    bench.do("start")
    notice = Notice(code="plan-changed", case="spilled", severity="info", params=SMALLER)
    smaller = on_gpu(plan(), needed=9.0)
    bench.emit(events.PlanDowngraded(job_id=job_id, plan=smaller, why="spilled", notice=notice))
    unfold(bench)
    assert "chrome.exe uses 2.1 GB" in said(bench)
    assert any(
        "GPU memory was moved to RAM" in line and "21" in line for line in bench.program.log.lines
    )
    assert bench.program.telemetry.planned_bytes == smaller.device_bytes
    bench.emit(events.PlanDowngraded(job_id=job_id, plan=smaller, why="out-of-memory"))
    assert "out of memory" in said(bench)


def test_missing_model_files_keep_a_plan_for_the_users_gpu_from_starting(bench):
    made = dataclasses.replace(on_gpu(plan()), notices=(to_download(),))
    say_plan(bench, made)
    assert "Cannot start" in said(bench)
    assert "Fits into memory" not in said(bench)


def test_a_disk_that_may_become_full_is_no_fit(bench):
    about = {"free": "1", "needed": "2", "disk": "result", "space": "1 B", "size": "2 B"}
    short = Notice(code="disk-may-fill", case="result", severity="warning", params=about)
    say_plan(bench, dataclasses.replace(plan(), notices=(short,)))
    assert "The disk may become full" in said(bench)
    assert "Fits into memory" not in said(bench)
    assert bench.find("primaryAction").isEnabled(), "the size of the file is an estimate"


def test_a_plan_that_lets_other_computers_in_says_so(bench):
    job_id = say_plan(bench, plan())
    assert not bench.find("planMachines").isVisible()
    made = dataclasses.replace(plan(), takes_machines=True)
    bench.emit(events.PlanChosen(job_id=job_id, plan=made))
    assert bench.find("planMachines").text() == "Paired computers process parts of it, too"
    assert bench.find("planMachines").isVisible()


def test_the_time_with_paired_computers_stands_on_the_card(bench):
    time = message("duration.hours", hours="2", minutes="10")
    together = Notice(
        code="machines-together",
        severity="info",
        params={"seconds": "7800", "time": time, "names": ("Studio PC", "Laptop")},
    )
    reasons = Reasons(limited_by="nothing", choices=(together,))
    made = dataclasses.replace(plan(), takes_machines=True, reasons=reasons)
    say_plan(bench, made)
    assert bench.find("planMachines").text() == (
        "About 2 h 10 min with these computers, if as fast as last time: Studio PC, Laptop."
    )


def test_subtitles_are_converted_and_not_encoded():
    text = PassPlan(
        index=1, kind="subtitle", codec="ass", copied=True, converted="mov_text", is_lossy=True
    )
    media = a_media()
    plan = dataclasses.replace(make_plan(media), streams=(text,))
    row = JobRow(job_id="a", source=Path("a.mkv"), media=media, plan=plan)
    assert [line.fate for line in stream_lines(row)] == ["converted to mov_text"]
    words = " ".join(" ".join(plan_words(plan)).split())
    assert "Converted: subtitle 1 (ass), saved as mov_text" in words
