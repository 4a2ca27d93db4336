"""The page of runtimes, and the line among the settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel, QPushButton, QToolButton
from pytestqt.qtbot import QtBot

from app import desktop
from app.bridge.engine_bridge import EventHub
from app.i18n import Languages
from app.runtimes.runtime_view import RuntimeView
from app.state.runtimes_model import RuntimesModel
from app.state.tasks_model import TasksModel
from engine.core.errors import HashMismatch
from engine.core.messages import message
from engine.protocol import commands
from tests.app.conftest import Bench
from tests.app.runtimes.conftest import Over
from tests.app.test_narrow_window import cut_off, settle
from tests.helpers.fake_states import NO_CARD, OFFLINE, make_listed, make_older, make_runtime
from tests.helpers.fake_tasks import RUNTIME

HERE = {"state": "here", "done_bytes": 5_640_000_000, "path": Path("runtimes/cu130")}
USED = HERE | {"is_chosen": True, "is_used": True}

OTHER_VERSION = message("reason.runtime.other-version")


@pytest.fixture
def page(over: Over) -> RuntimeView:
    over.link.open_view()
    over.hear()
    return over.link.view


def button(page: RuntimeView, runtime: str) -> QPushButton:
    found = page.findChild(QPushButton, f"runtime-do-{runtime}")
    assert found is not None
    return found


def entry(page: RuntimeView, runtime: str, text: str) -> QAction:
    more = page.findChild(QToolButton, f"runtime-more-{runtime}")
    assert more is not None
    return {action.text(): action for action in more.menu().actions()}[text]


def row(over: Over, page: RuntimeView, runtime: str) -> list[str]:
    return over.texts(page._rows[runtime]).split("\n")


def test_the_page_says_what_is_in_use_and_why(over: Over, page: RuntimeView) -> None:
    assert "In use now: Built in, for the processor" in over.texts(page)
    assert "No NVIDIA runtime is chosen." in over.texts(page)
    assert "suits NVIDIA GeForce RTX 5070 Ti" in over.texts(page)
    assert row(over, page, "") == [
        "Built in, for the processor",
        "Comes with Upreel and is always there",
        "In use",
    ]
    assert row(over, page, "cu130") == [
        "CUDA 13.0 · torch 2.13.0",
        "driver 580.0 or newer · 1.9 GB to download, about 5.7 GB on the disk",
        "Not here",
    ]
    over.put(**USED)
    assert "In use now: CUDA 13.0 · torch 2.13.0" in over.texts(page)
    assert row(over, page, "cu130")[1:] == ["driver 580.0 or newer · 5.6 GB on the disk", "In use"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "Download"),
        ({"state": "partial", "done_bytes": 9}, "Continue"),
        (HERE, "Use"),
        ({"state": "broken", "why": OTHER_VERSION}, "Repair"),
        (USED, ""),
        ({"state": "not-in-build"}, ""),
        ({"state": "busy"}, ""),
        ({"suits_program": False}, ""),
        ({"suits_card": False}, ""),
        ({"can_download": False}, ""),
    ],
)
def test_one_button_for_each_state(
    over: Over, page: RuntimeView, changes: dict[str, object], text: str
) -> None:
    over.put(**changes)
    shown = button(page, "cu130")
    assert (shown.text() if shown.isVisible() else "") == text
    assert shown.accessibleName() == f"{text}: CUDA 13.0 · torch 2.13.0" or not text


def test_use_the_programs_own_and_start_again(over: Over, page: RuntimeView) -> None:
    restart = page.findChild(QPushButton, "runtimeRestart")
    over.put(**USED)
    assert not restart.isVisible()
    assert not button(page, "cu130").isVisible()
    button(page, "").click()
    over.hear()
    assert [c.runtime for c in over.asked(commands.UseRuntime)] == [""]
    assert row(over, page, "cu130")[-1] == "In use for now"
    assert row(over, page, "")[-1] == "From the next start on"
    assert restart.isVisible()
    assert "From the next start on the processor" in over.texts()
    button(page, "cu130").click()
    over.hear()
    assert not restart.isVisible(), "as it was"


@pytest.mark.parametrize("is_sure", [True, False])
def test_removal_asks_and_says_what_it_frees(
    over: Over, page: RuntimeView, monkeypatch: pytest.MonkeyPatch, is_sure: bool
) -> None:
    questions = over.answer(monkeypatch, is_sure)
    over.put(**HERE)
    entry(page, "cu130", "Remove …").trigger()
    over.hear()
    assert "Remove the NVIDIA runtime CUDA 13.0" in questions[0]
    assert "5.6 GB" in questions[0]
    assert [c.runtime for c in over.asked(commands.RemoveRuntime)] == ["cu130"] * is_sure


def test_what_is_in_use_cannot_be_removed(over: Over, page: RuntimeView) -> None:
    over.put(**USED)
    assert not entry(page, "cu130", "Remove …").isEnabled()


def test_its_folder_can_be_looked_at(
    over: Over, page: RuntimeView, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Path] = []
    monkeypatch.setattr(desktop, "show_in_folder", shown.append)
    over.put(**HERE)
    entry(page, "cu130", "Show in folder").trigger()
    assert shown == [Path("runtimes/cu130")]


def test_one_wish_at_a_time(over: Over, page: RuntimeView) -> None:
    over.say(make_listed(make_runtime(), make_older(**HERE)))
    button(page, "cu130").click()
    over.engine.advance(RUNTIME, 684.0)
    over.hear()
    assert button(page, "cu130").text() == "Pause"
    assert not button(page, "cu126").isEnabled()
    assert not page.findChild(QPushButton, "runtimeFile").isEnabled()
    assert any("12.5 MB/s" in text for text in row(over, page, "cu130"))
    over.link.act_on("use", "cu126")
    assert not over.asked(commands.UseRuntime)
    over.engine.fail(RUNTIME, OFFLINE)
    over.hear()
    assert (
        "does not deliver a.safetensors: it stopped answering.\nCheck the connection"
        in over.texts(page)
    )
    assert button(page, "cu126").isEnabled()


def test_an_import_that_fails_belongs_to_no_row(over: Over, page: RuntimeView) -> None:
    over.link.take_files([Path("/a.whl")])
    over.engine.advance(RUNTIME, 3.0, total=9.0)
    over.hear()
    assert "Checking the file" in over.texts(page)
    error = HashMismatch("no-known-wheel", name="a.whl", wheels="torch.whl").info()
    over.engine.fail(RUNTIME, error)
    over.hear()
    assert "a.whl is none of the wheels" in over.texts(page)


def test_without_a_card_nothing_is_offered_here_either(over: Over, page: RuntimeView) -> None:
    runtimes = (make_runtime(suits_card=False), make_older(suits_card=False))
    over.say(replace(NO_CARD, runtimes=runtimes))
    assert "There is no NVIDIA GPU here: no runtime is needed." in over.texts(page)
    assert not button(page, "cu130").isVisible()
    assert not button(page, "cu126").isVisible()
    assert not page.findChild(QPushButton, "runtimeFile").isVisible()
    assert not over.bar.isVisible()


def test_before_the_engine_answers_the_page_says_so(qtbot: QtBot) -> None:
    hub = EventHub()
    view = RuntimeView(RuntimesModel(hub, TasksModel(hub)))
    qtbot.addWidget(view)
    texts = [label.text() for label in view.findChildren(QLabel)]
    assert "Looking at this machine …" in texts


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_nothing_is_cut_off(over: Over, page: RuntimeView, qapp: object, language: str) -> None:
    languages = Languages(qapp)
    languages.use(language)
    try:
        for changes in ({}, USED, HERE | {"state": "broken", "why": OTHER_VERSION}):
            over.put(**changes)
            settle()
            assert list(cut_off(page)) == []
    finally:
        languages.use("en")


def test_the_line_among_the_settings_follows(over: Over) -> None:
    part = over.link.settings_part()
    summary = part.findChild(QLabel, "runtimeSummary")
    assert summary.text().endswith("suits NVIDIA GeForce RTX 5070 Ti with driver 581.29.")
    over.put(**HERE, is_chosen=True)
    assert summary.text() == "The NVIDIA runtime is here: it is used from the next start on"
    used = message("torch-choice.chosen", runtime="cu130")
    over.say(make_listed(make_runtime(**USED), used=used))
    assert summary.text() == str(used)


def test_the_settings_say_which_is_in_use_and_lead_to_the_page(bench: Bench) -> None:
    bench.do("settings")
    dialog = bench.program.settings.dialog
    summary = dialog.findChild(QLabel, "runtimeSummary")
    assert summary is not None
    assert summary.text().endswith("There is no NVIDIA GPU here: no runtime is needed.")
    opener = dialog.findChild(QPushButton, "openRuntimes")
    assert opener is not None
    opener.click()
    assert bench.program.runtime.view.isVisible()
    bench.program.runtime.view.close()
    bench.do("runtime")
    assert bench.program.runtime.view.isVisible(), "what an error card offers"
