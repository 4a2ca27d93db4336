"""The bar over the window, with the links behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtWidgets import QApplication, QFileDialog, QPushButton
from pytestqt.qtbot import QtBot

from app import desktop
from app.runtimes.runtime_labels import HINTS
from app.ui_state import UiState
from app.widgets.controls import ElidedLabel
from engine.core.errors import DiskFull, ErrorInfo, HashMismatch, RuntimeBroken
from engine.core.messages import message, read_entries
from engine.protocol import commands, events
from tests.app.conftest import Bench
from tests.app.runtimes.conftest import Over
from tests.app.test_gauges import GPU
from tests.app.test_narrow_window import cut_off, settle
from tests.helpers.fake_states import (
    NO_CARD,
    OFFLINE,
    make_listed,
    make_older,
    make_runtime,
)
from tests.helpers.fake_tasks import RUNTIME

DISK_FULL = DiskFull("runtime", folder="/data", free="4.1 GB", needed="7.6 GB").info()
HERE = {"state": "here", "done_bytes": 5 * 10**9, "path": Path("runtimes/cu130")}

NOT_INSTALLED = message("reason.runtime.not-installed")


def test_without_a_card_nothing_is_offered(bench: Bench) -> None:
    assert bench.engine.asked(commands.ListRuntimes)
    assert bench.program.runtime_model.listed == NO_CARD
    assert not bench.program.runtime.bar.isVisible()


def test_a_card_without_a_runtime_gets_one_clear_offer(over: Over) -> None:
    assert over.bar.isVisible()
    assert over.texts().startswith(
        "Your RTX 5070 Ti can be used after a download of 1.9 GB (NVIDIA runtime)"
    )
    assert "5.7 GB of the 212 GB free" in over.texts()
    assert over.offered() == ["download", "file", "hide"]


def test_the_card_on_top_says_that_it_is_not_used(whole: Over) -> None:
    whole.program.engine.emit_telemetry(GPU)
    whole.hear()
    chip = whole.program.window.findChild(ElidedLabel, "gpuText")
    assert chip.whole == "RTX 5070 Ti · 16 GB · not used"
    whole.put(**HERE, is_chosen=True, is_used=True)
    assert chip.whole == "RTX 5070 Ti · 16 GB"
    whole.say(make_listed(follows_choice=False))  # a checkout: nobody knows before torch is there
    assert chip.whole == "RTX 5070 Ti · 16 GB"


def test_from_download_to_the_next_start(over: Over) -> None:
    over.press("download")
    assert [c.runtime for c in over.asked(commands.InstallRuntime)] == ["cu130"]
    assert over.offered() == ["pause", "cancel"]
    over.engine.advance(RUNTIME, 684.0)
    over.hear()
    assert "684 of 1,900 MB · 12.5 MB/s · 1 min 37 s left" in over.texts()
    assert over.bar.findChild(type(over.bar._bar), "runtimeShare").isVisible()
    over.engine.begin(RUNTIME, "cu130", "try")
    over.hear()
    assert "virus scanners" in over.texts()
    assert over.offered() == ["cancel"]
    over.engine.finish(RUNTIME)
    over.hear()
    assert "used from the next start on" in over.texts()
    assert "takes torch 2.13.0+cu130" in over.texts()
    assert over.offered() == ["restart", "later"]
    over.press("later")
    assert not over.bar.isVisible()


def test_a_film_runs_while_the_runtime_comes(whole: Over, bench: Bench) -> None:
    bench.add()
    bench.do("start")
    whole.press("download")
    bench.engine.advance(80)
    whole.engine.advance(RUNTIME, 10.0)
    bench.hear()
    assert bench.program.queue.active is not None
    bench.engine.finish()
    bench.hear()
    assert whole.offered() == ["pause", "cancel"]


def test_pause_keeps_what_came_and_it_goes_on(over: Over) -> None:
    over.press("download")
    over.engine.advance(RUNTIME, 684.0)
    over.hear()
    over.press("pause")
    assert over.texts().startswith("684 MB of 1.9 GB of the NVIDIA runtime are here")
    assert over.offered() == ["continue", "discard", "hide"]
    over.press("continue")
    assert len(over.asked(commands.InstallRuntime)) == 2


@pytest.mark.parametrize("is_sure", [True, False])
def test_cancel_asks_and_deletes_what_came(
    over: Over, monkeypatch: pytest.MonkeyPatch, is_sure: bool
) -> None:
    questions = over.answer(monkeypatch, is_sure)
    over.press("download")
    over.engine.advance(RUNTIME, 684.0)
    over.hear()
    over.press("cancel")
    over.hear()
    assert len(questions) == 1
    assert "684 MB are here" in questions[0]
    assert bool(over.asked(commands.StopTask)) is is_sure
    assert [c.runtime for c in over.asked(commands.RemoveRuntime)] == ["cu130"] * is_sure
    assert over.offered() == (["download", "file", "hide"] if is_sure else ["pause", "cancel"])


def test_cancel_before_the_first_byte_asks_nothing(
    over: Over, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = over.answer(monkeypatch, True)
    over.press("download")
    over.press("cancel")
    assert questions == []
    assert over.asked(commands.StopTask)
    assert not over.asked(commands.RemoveRuntime)


def test_the_second_half_of_a_double_click_stops_nothing(over: Over) -> None:
    QApplication.setDoubleClickInterval(10_000)
    over.press("download")
    over.press("pause")
    assert not over.asked(commands.StopTask)


@pytest.mark.parametrize("error", [OFFLINE, DISK_FULL])
def test_a_failure_is_said_in_words_with_a_way_on(over: Over, error: ErrorInfo) -> None:
    over.press("download")
    over.engine.fail(RUNTIME, error)
    over.hear()
    assert error.message in over.texts()
    assert error.hint in over.texts()
    assert "model" not in over.texts()
    assert over.offered() == ["retry", "file", "dismiss"]
    over.press("retry")
    assert len(over.asked(commands.InstallRuntime)) == 2
    over.engine.fail(RUNTIME, error)
    over.hear()
    over.press("dismiss")
    assert over.offered() == ["download", "file", "hide"]


def test_hints_that_are_commands_are_buttons_in_the_window(over: Over) -> None:
    kinds = ("runtime-", "unknown-runtime")
    found = {
        code
        for code, entry in read_entries("en").items()
        if code.startswith(kinds) and "python -m engine" in entry.get("hint", "")
    }
    assert found == set(HINTS)
    over.press("download")
    error = RuntimeBroken("unusable", runtime="cu130", why=NOT_INSTALLED).info()
    over.engine.fail(RUNTIME, error)
    over.hear()
    assert f"{error.message}\nRepair gets it again." in over.texts()


def test_not_now_is_remembered(over: Over, tmp_path: Path) -> None:
    over.press("hide")
    assert not over.bar.isVisible()
    over.say()
    assert not over.bar.isVisible()
    over.program.ui_state.save()
    assert UiState(tmp_path / "window.ini").runtime_hidden == ("offer:cu130:2.13.0+cu130:",)
    over.put(torch="2.14.0+cu130")
    assert over.bar.isVisible(), "another version is another offer"


def test_what_was_waved_away_in_a_damaged_file_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.ini").write_text("[General]\nruntime_hidden={1\n", "utf-8")
    assert UiState(tmp_path / "a.ini").runtime_hidden == ()


def test_a_file_is_taken_in_the_place_of_a_download(
    over: Over, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = ["/disk/torch.whl"]
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: (chosen, ""))
    over.press("file")
    assert [c.paths for c in over.asked(commands.ImportRuntime)] == [(Path("/disk/torch.whl"),)]
    assert "Checking the file" in over.texts()
    error = HashMismatch("no-known-wheel", name="torch.whl", wheels="a.whl").info()
    over.engine.fail(RUNTIME, error)
    over.hear()
    assert "This is not a file that was published" in over.texts()
    assert over.offered() == ["file", "dismiss"]


@pytest.mark.parametrize("is_sure", [True, False])
def test_a_wheel_that_is_dropped_is_no_film(
    whole: Over, monkeypatch: pytest.MonkeyPatch, is_sure: bool
) -> None:
    questions = whole.answer(monkeypatch, is_sure)
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile("/disk/torch-2.13.0.whl"), QUrl.fromLocalFile("/a.mp4")])
    whole.program.window.intake.take_drop(mime)
    whole.hear()
    assert "Use torch-2.13.0.whl as the NVIDIA runtime?" in questions[0]
    assert len(whole.asked(commands.ImportRuntime)) == is_sure
    assert [row.source.name for row in whole.program.queue.rows] == ["a.mp4"]


def test_an_old_driver_is_named_with_the_one_that_is_needed(
    over: Over, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(desktop, "open_page", opened.append)
    over.say(make_listed(suited="", driver="560.94", driver_needed="580.0"))
    assert "580.0 or newer, 560.94 is here" in over.texts()
    assert "Lite" in over.texts()
    assert over.offered() == ["driver", "hide"]
    over.press("driver")
    assert opened == ["https://www.nvidia.com/drivers"]


@pytest.mark.parametrize(
    ("other", "offered"),
    [("missing", ["file", "details", "hide"]), ("not-in-build", ["details", "hide"])],
)
def test_a_build_without_hashes_says_so(over: Over, other: str, offered: list[str]) -> None:
    over.say(make_listed(make_runtime(state="not-in-build"), make_older(state=other)))
    assert "not in this build" in over.texts()
    assert over.offered() == offered
    over.press("details")
    assert over.link.view.isVisible()


def test_one_that_is_broken_says_why_and_is_repaired(over: Over) -> None:
    over.put(**HERE | {"state": "broken", "is_chosen": True, "why": NOT_INSTALLED})
    assert "The reason: it is not installed" in over.texts()
    over.press("repair")
    assert [c.runtime for c in over.asked(commands.InstallRuntime)] == ["cu130"]


def test_one_that_did_not_load_needs_a_new_start(over: Over) -> None:
    changes = {"state": "broken", "is_chosen": True, "is_used": True, "why": NOT_INSTALLED}
    over.put(**HERE | changes)
    assert over.offered() == ["restart", "details", "hide"]


def test_after_an_update_the_newer_one_is_offered(over: Over) -> None:
    old = make_runtime(id="cu130-2.9.1-aa", driver="", state="broken", is_chosen=True)
    over.say(make_listed(make_runtime(), old))
    assert "needs a newer NVIDIA runtime" in over.texts()
    assert "A download of 1.9 GB." in over.texts()
    over.press("download")
    assert [c.runtime for c in over.asked(commands.InstallRuntime)] == ["cu130"]


def test_a_list_that_cannot_be_read_is_asked_for_again(over: Over) -> None:
    error = ErrorInfo(code="runtime-error", case="catalogue")
    over.engine.sink.emit(events.TaskFailed(kind=RUNTIME, error=error))
    over.hear()
    before = len(over.asked(commands.ListRuntimes))
    over.press("retry")
    assert len(over.asked(commands.ListRuntimes)) == before + 1
    assert over.offered() == ["download", "file", "hide"]


def test_the_keyboard_gets_along(over: Over, qtbot: QtBot) -> None:
    button = over.bar.findChild(QPushButton, "runtime-download")
    assert button.focusPolicy() & Qt.FocusPolicy.TabFocus
    button.setFocus()
    qtbot.keyClick(button, Qt.Key.Key_Space)
    over.hear()
    pause = over.bar.findChild(QPushButton, "runtime-pause")
    assert pause.isVisible()
    assert QApplication.focusWidget() is pause or not over.program.window.isActiveWindow()
    assert pause.accessibleName() == "Pause: NVIDIA runtime"
    assert "NVIDIA runtime" in over.bar.accessibleName()


def test_the_keyboard_meets_the_bar_between_top_and_queue(whole: Over) -> None:
    window, order = whole.program.window, []
    widget = window.top.last_control
    while widget.objectName() != "addFiles":
        if isinstance(widget, QPushButton) and widget.isVisible():
            order.append(widget.objectName())
        widget = widget.nextInFocusChain()
        assert widget is not window.top.last_control
    assert order == ["runtime-download", "runtime-file", "runtime-hide"]


SITUATIONS = {
    "offer": make_listed(),
    "partial": make_listed(make_runtime(state="partial", done_bytes=684_000_000)),
    "ready": make_listed(make_runtime(**HERE, is_chosen=True)),
    "broken": make_listed(make_runtime(**HERE | {"state": "broken", "why": NOT_INSTALLED})),
    "driver": make_listed(suited="", driver="560.94", driver_needed="580.0"),
    "card": make_listed(suited=""),
    "build": make_listed(make_runtime(state="not-in-build")),
}


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_nothing_is_cut_off_in_a_narrow_window(whole: Over, language: str) -> None:
    whole.program.use_language(language)
    whole.program.window.resize(1024, 640)
    for name, listed in SITUATIONS.items():
        whole.say(listed)
        settle()
        assert whole.bar.isVisible(), name
        assert list(cut_off(whole.bar)) == [], name
        assert whole.program.window.width() == 1024, name
