from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QPushButton

from app import desktop
from app.installs.runtimes_page import RuntimesPage
from engine.core.messages import message
from engine.protocol import commands
from tests.app.conftest import part
from tests.app.installs.conftest import Over
from tests.app.test_narrow_window import cut_off, settle
from tests.helpers.fake_states import NO_GPU, OFFLINE, make_listed, make_older, make_runtime

HERE = {"state": "here", "done_bytes": 5_640_000_000, "path": Path("runtimes/cu130")}
USED = HERE | {"is_chosen": True, "is_used": True}

OTHER_VERSION = message("reason.runtime.other-version")


@pytest.fixture
def page(over: Over) -> RuntimesPage:
    over.link.open_view()
    over.hear()
    return over.link.view


def button(page: RuntimesPage, runtime: str) -> QPushButton:
    return part(page, f"do-{runtime}")


def entry(page: RuntimesPage, runtime: str, text: str) -> QAction:
    more = part(page, f"more-{runtime}")
    return {action.text(): action for action in more.menu().actions()}[text]


def row(over: Over, page: RuntimesPage, runtime: str) -> list[str]:
    return over.texts(page._rows[runtime]).split("\n")


def test_the_page_says_what_is_in_use_and_why(over, page):
    page.resize(1000, 700)  # more than the screen of tests has: nothing is shortened
    assert "In use now: Built in, for the CPU" in over.texts(page)
    assert "No NVIDIA runtime is selected." in over.texts(page)
    assert "is the right one for NVIDIA GeForce RTX 5070 Ti" in over.texts(page)
    built_in = ["Built in, for the CPU", "Included with Upreel, always available", "In use"]
    assert row(over, page, "") == built_in
    about = "driver 580.0 or newer · 1.9 GB to download, about 5.7 GB on disk"
    assert row(over, page, "cu130") == ["CUDA 13.0 · torch 2.13.0", about, "Not installed"]
    over.put(**USED)
    assert "In use now: CUDA 13.0 · torch 2.13.0" in over.texts(page)
    assert row(over, page, "cu130")[1:] == ["driver 580.0 or newer · 5.6 GB on disk", "In use"]


def test_one_button_for_each_state(over, page):
    for changes, text in (
        ({}, "Download"),
        ({"state": "partial", "done_bytes": 9}, "Continue"),
        (HERE, "Use"),
        ({"state": "broken", "why": OTHER_VERSION}, "Repair"),
        (USED, ""),
        ({"state": "busy"}, ""),
        ({"suits_program": False}, ""),
        ({"suits_card": False}, ""),
    ):
        over.put(**changes)
        shown = button(page, "cu130")
        assert (shown.text() if shown.isVisible() else "") == text, changes
        assert shown.accessibleName() == f"{text}: CUDA 13.0 · torch 2.13.0" or not text


def test_use_the_programs_own_and_start_again(over, page):
    restart = part(page, "runtimeRestart")
    over.put(**USED)
    assert not restart.isVisible()
    assert not button(page, "cu130").isVisible()
    button(page, "").click()
    over.hear()
    assert over.runtimes(commands.UseRuntime) == [""]
    assert row(over, page, "cu130")[-1] == "Temporarily in use"
    assert row(over, page, "")[-1] == "After a restart"
    assert restart.isVisible()
    assert "After a restart Upreel runs on the CPU" in over.texts()
    button(page, "cu130").click()
    over.hear()
    assert not restart.isVisible(), "as it was"


def test_a_runtime_that_is_here_is_removed_unless_in_use(over, page):
    over.put(**USED)
    assert not entry(page, "cu130", "Remove …").isEnabled()
    over.put(**HERE)
    shown: list[Path] = []
    over.patch.setattr(desktop, "show_in_folder", shown.append)
    entry(page, "cu130", "Show in folder").trigger()
    assert shown == [Path("runtimes/cu130")]
    for is_sure in (False, True):
        remove = entry(page, "cu130", "Remove …").trigger
        (question,) = over.answer(is_sure, remove)
        assert "Remove the NVIDIA runtime CUDA 13.0" in question
        assert "5.6 GB" in question
        assert over.runtimes(commands.RemoveRuntime) == ["cu130"] * is_sure


def test_one_wish_at_a_time(over, page):
    over.say(make_listed(make_runtime(), make_older(**HERE)))
    button(page, "cu130").click()
    over.advance(684.0)
    assert button(page, "cu130").text() == "Pause"
    assert not button(page, "cu126").isEnabled()
    assert not part(page, "runtimeFile").isEnabled()
    assert any("12.5 MB/s" in text for text in row(over, page, "cu130"))
    over.link.act("use", "cu126")
    assert not over.asked(commands.UseRuntime)
    over.fail(OFFLINE)
    said = "from huggingface.co: the server stopped responding.\nCheck your internet connection"
    assert said in over.texts(page)
    assert button(page, "cu126").isEnabled()


def test_a_download_that_failed_is_tried_again_as_those_of_models_are(over, page):
    button(page, "cu130").click()
    over.hear()
    over.fail(OFFLINE)
    over.put(state="partial", done_bytes=9)
    assert button(page, "cu130").text() == "Try again"
    button(page, "cu130").click()
    over.hear()
    assert [one.runtime for one in over.asked(commands.InstallRuntime)] == ["cu130", "cu130"]


def test_a_double_click_on_download_does_not_pause(over, page):
    QApplication.setDoubleClickInterval(10_000)
    for _ in range(2):
        button(page, "cu130").click()
        over.hear()
    assert button(page, "cu130").text() == "Pause"
    assert not over.asked(commands.StopTask)


def test_without_a_card_nothing_is_offered_here_either(over, page):
    runtimes = (make_runtime(suits_card=False), make_older(suits_card=False))
    over.say(replace(NO_GPU, runtimes=runtimes))
    assert "This computer has no NVIDIA GPU: no runtime is needed." in over.texts(page)
    parts = (button(page, "cu130"), button(page, "cu126"), part(page, "runtimeFile"), over.card)
    assert not any(one.isVisible() for one in parts)


def test_nothing_is_cut_off(over, page):
    for language in ("zh_CN", "en"):
        over.program.use_language(language)
        for changes in ({}, USED, HERE | {"state": "broken", "why": OTHER_VERSION}):
            over.put(**changes)
            settle()
            assert list(cut_off(page)) == [], (language, changes)


def test_the_line_among_the_settings_follows(over):
    settings = over.link.settings_part()
    summary = part(settings, "runtimeSummary")
    assert summary.text().endswith(
        "is the right one for NVIDIA GeForce RTX 5070 Ti with driver 581.29."
    )
    over.put(**HERE, is_chosen=True)
    assert summary.text() == "The NVIDIA runtime is installed and will be used after a restart"
    used = message("torch-choice.chosen", runtime="cu130")
    over.say(make_listed(make_runtime(**USED), used=used))
    assert summary.text() == str(used)


def test_the_settings_say_which_is_in_use_and_lead_to_the_page(bench):
    bench.do("settings")
    dialog = bench.program.settings.dialog
    summary = part(dialog, "runtimeSummary").text()
    assert summary.endswith("This computer has no NVIDIA GPU: no runtime is needed.")
    part(dialog, "openRuntimes").click()
    assert bench.program.runtime.view.isVisible()
    bench.program.runtime.view.close()
    bench.do("runtime")
    assert bench.program.runtime.view.isVisible(), "what an error card offers"
