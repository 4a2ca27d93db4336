from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QFileDialog, QPushButton

from app import desktop
from app.ui_state import UiState
from engine.core.errors import (
    DiskFull,
    ErrorInfo,
    HashMismatch,
    RuntimeBroken,
)
from engine.core.messages import message
from engine.protocol import commands, events
from tests.app.conftest import dropped, part
from tests.app.test_gauges import GPU
from tests.app.test_narrow_window import cut_off, settle
from tests.helpers.fake_states import NO_GPU, OFFLINE, make_listed, make_older, make_runtime
from tests.helpers.fake_tasks import RUNTIME

DISK_FULL = DiskFull("runtime", folder="/data", free="4.1 GB", needed="7.6 GB").info()
HERE = {"state": "here", "done_bytes": 5 * 10**9, "path": Path("runtimes/cu130")}

NOT_INSTALLED = message("reason.runtime.not-installed")
BLOCKED = message("reason.runtime.blocked.smart-app-control", why="WinError 4551: c10_cuda.dll")


def test_without_a_card_nothing_is_offered(bench):
    assert bench.asked(commands.ListRuntimes)
    assert bench.program.runtime_model.listed == NO_GPU
    assert not bench.program.runtime.card.isVisible()


def test_a_card_without_a_runtime_gets_one_clear_offer_and_is_called_unused(over):
    assert over.card.isVisible()
    offer = "Download the NVIDIA runtime (1.9 GB) to use your RTX 5070 Ti"
    assert over.texts().startswith(offer)
    assert "5.7 GB of the 212 GB free" in over.texts()
    assert over.offered() == ["download", "file", "hide"]
    over.program.engine.emit_telemetry(GPU)
    over.hear()
    chip = part(over.program.window, "gpuText")
    assert chip.whole == "RTX 5070 Ti · 16 GB · not used"
    over.put(**HERE, is_chosen=True, is_used=True)
    assert chip.whole == "RTX 5070 Ti · 16 GB"
    over.say(make_listed(follows_choice=False))  # a checkout: not known before torch is imported
    assert chip.whole == "RTX 5070 Ti · 16 GB"


def test_from_download_to_the_next_start(over):
    over.press("download")
    assert over.runtimes(commands.InstallRuntime) == ["cu130"]
    assert over.offered() == ["pause", "cancel"]
    over.advance(684.0)
    assert "684 of 1\u202f900 MB · 12.5 MB/s · 1 min 37 s left" in over.texts()
    assert part(over.card, "runtimeShare").isVisible()
    over.engine.begin(RUNTIME, "cu130", "try")
    over.hear()
    assert "virus scanners" in over.texts()
    assert over.offered() == ["cancel"]
    over.engine.finish(RUNTIME)
    over.hear()
    assert "used after a restart" in over.texts()
    assert "uses torch 2.13.0+cu130" in over.texts()
    assert over.offered() == ["restart", "later"]
    over.press("later")
    assert not over.card.isVisible()


def test_pause_keeps_what_came_and_it_goes_on(over):
    over.press("download")
    over.advance(684.0)
    over.press("pause")
    assert over.texts().startswith("NVIDIA runtime: 684 MB of 1.9 GB downloaded")
    assert over.offered() == ["continue", "discard", "hide"]
    over.press("continue")
    assert len(over.asked(commands.InstallRuntime)) == 2


def test_before_the_first_byte_cancel_asks_nothing_and_a_double_click_stops_nothing(over):
    over.press("download")
    assert over.answer(True, lambda: over.press("cancel")) == []
    assert len(over.asked(commands.StopTask)) == 1
    assert not over.asked(commands.RemoveRuntime)
    QApplication.setDoubleClickInterval(10_000)
    over.press("download")
    over.press("pause")
    assert len(over.asked(commands.StopTask)) == 1


@pytest.mark.parametrize("is_sure", [True, False])
def test_cancel_asks_and_deletes_what_came(over, is_sure):
    over.press("download")
    over.advance(684.0)
    (question,) = over.answer(is_sure, lambda: over.press("cancel"))
    over.hear()
    assert "684 MB downloaded" in question
    assert len(over.asked(commands.StopTask)) == is_sure
    assert over.runtimes(commands.RemoveRuntime) == ["cu130"] * is_sure
    assert over.offered() == (["download", "file", "hide"] if is_sure else ["pause", "cancel"])


def test_a_failure_is_said_in_words_with_a_way_on(over):
    over.press("download")
    for error in (OFFLINE, DISK_FULL):
        over.fail(error)
        assert error.message in over.texts()
        assert error.hint in over.texts()
        assert "model" not in over.texts()
        assert over.offered() == ["retry", "file", "dismiss"]
        over.press("retry")
    assert len(over.asked(commands.InstallRuntime)) == 3
    over.fail(OFFLINE)
    over.press("dismiss")
    assert over.offered() == ["download", "file", "hide"]


def test_hints_have_the_words_of_the_window(over):
    over.press("download")
    error = RuntimeBroken("unusable", runtime="cu130", why=NOT_INSTALLED).info()
    over.fail(error)
    assert f"{error.message}\nRepair downloads it again." in over.texts()


def test_a_block_by_windows_is_said_before_the_download_and_is_no_damage(over):
    over.say(make_listed(smart_app_control="on"))
    assert "Smart App Control of Windows is on" in over.texts()
    assert over.offered() == ["download", "file", "hide"]
    blocked = HERE | {"state": "blocked", "why": BLOCKED}
    over.put(**blocked)
    assert "c10_cuda.dll" in over.texts()
    assert "turn off Smart App Control" in over.texts()
    assert over.offered() == ["use", "details", "hide"], "nothing to repair"
    over.press("use")
    assert over.runtimes(commands.UseRuntime) == ["cu130"]
    over.engine.finish(RUNTIME)
    over.put(**blocked, is_chosen=True, is_used=True)
    assert over.offered() == ["restart", "details", "hide"]


def test_not_now_is_remembered(over, tmp_path):
    over.press("hide")
    assert not over.card.isVisible()
    over.say()
    assert not over.card.isVisible()
    over.program.ui_state.save()
    assert UiState(tmp_path / "window.ini").runtime_hidden == ("offer:cu130:2.13.0+cu130:",)
    over.put(torch="2.14.0+cu130")
    assert over.card.isVisible(), "another version is another offer"
    (tmp_path / "damaged.ini").write_text("[General]\nruntime_hidden={1\n", "utf-8")
    assert UiState(tmp_path / "damaged.ini").runtime_hidden == ()


def test_a_file_is_taken_in_the_place_of_a_download(over):
    over.patch.setattr(QFileDialog, "getOpenFileNames", lambda *_: (["/disk/torch.whl"], ""))
    over.link.open_view()
    over.press("file")
    assert [c.paths for c in over.asked(commands.ImportRuntime)] == [(Path("/disk/torch.whl"),)]
    assert "Verifying the file" in over.texts()
    assert "Verifying the file" in over.texts(over.link.view)
    over.fail(HashMismatch("no-known-wheel", name="torch.whl", wheels="a.whl").info())
    assert "This is not a published file" in over.texts()
    assert over.offered() == ["file", "dismiss"]
    assert "torch.whl is not a wheel" in over.texts(over.link.view)


def test_a_wheel_that_is_dropped_is_no_film(over):
    mime = dropped(Path("/disk/torch-2.13.0.whl"), Path("/a.mp4"))
    take = over.program.window.intake.take_drop
    for is_sure in (False, True):
        (question,) = over.answer(is_sure, lambda: take(mime))
        over.hear()
        assert "Use torch-2.13.0.whl as the NVIDIA runtime?" in question
        assert len(over.asked(commands.ImportRuntime)) == is_sure
    assert {row.source.name for row in over.program.queue.rows} == {"a.mp4"}


def test_an_old_driver_is_named_with_the_one_that_is_needed(over):
    opened: list[str] = []
    over.patch.setattr(desktop, "open_page", opened.append)
    new, old = make_runtime(suits_card=False), make_older(suits_card=False)
    over.say(make_listed(new, old, suited="", driver="560.94", driver_needed="580.0"))
    assert "580.0 or newer, 560.94 is installed" in over.texts()
    assert "Lite" in over.texts()
    assert over.offered() == ["driver", "hide"]
    over.say(make_listed(new, make_older(), suited="", driver="560.94", driver_needed="580.0"))
    assert "CUDA 12.6 · torch 2.13.0 in the settings works with this driver: 2.5 GB" in over.texts()
    assert over.offered() == ["driver", "details", "hide"]
    over.press("driver")
    assert opened == ["https://www.nvidia.com/drivers"]


def test_what_is_broken_or_outdated_is_said_so(over):
    old = make_runtime(id="cu130-2.9.1-aa", driver="", state="broken", is_chosen=True)
    over.say(make_listed(make_runtime(), old))
    assert "needs a newer NVIDIA runtime" in over.texts()
    assert "Download size: 1.9 GB." in over.texts()
    assert over.offered()[0] == "download"
    broken = HERE | {"state": "broken", "is_chosen": True, "why": NOT_INSTALLED}
    over.put(**broken, is_used=True)
    assert over.offered() == ["restart", "details", "hide"]
    over.put(**broken)
    assert "Reason: it is not installed" in over.texts()
    over.press("repair")
    assert over.runtimes(commands.InstallRuntime) == ["cu130"]


def test_a_list_that_cannot_be_read_is_asked_for_again(over):
    error = ErrorInfo(code="runtime-error", case="catalogue")
    over.engine.sink.emit(events.TaskFailed(kind=RUNTIME, error=error))
    over.hear()
    before = len(over.asked(commands.ListRuntimes))
    over.press("retry")
    assert len(over.asked(commands.ListRuntimes)) == before + 1
    assert over.offered() == ["download", "file", "hide"]


def test_the_keyboard_meets_the_offer_between_queue_and_stage(over, qtbot):
    window, order = over.program.window, []
    widget = part(window, "addFolder").nextInFocusChain()
    while not window.preview.isAncestorOf(widget):
        if isinstance(widget, QPushButton) and widget.isVisible():
            assert widget.focusPolicy() & Qt.FocusPolicy.TabFocus
            order.append(widget.objectName())
        widget = widget.nextInFocusChain()
        assert widget is not window.top.last_control
    assert order == ["runtime-download", "runtime-file", "runtime-hide"]
    part(over.card, order[0]).setFocus()
    qtbot.keyClick(part(over.card, order[0]), Qt.Key.Key_Space)
    over.hear()
    pause = part(over.card, "runtime-pause")
    assert pause.isVisible()
    assert QApplication.focusWidget() is pause or not window.isActiveWindow()
    assert pause.accessibleName() == "Pause: NVIDIA runtime"
    assert "NVIDIA runtime" in over.card.accessibleName()


def test_nothing_is_cut_off_in_a_narrow_window(over):
    over.program.window.resize(1024, 640)
    over.program.window.columns.queue_sheet.open_up()
    for language in ("zh_CN", "en"):
        over.program.use_language(language)
        for listed in (
            make_listed(),
            make_listed(make_runtime(state="partial", done_bytes=684_000_000)),
            make_listed(make_runtime(**HERE, is_chosen=True)),
            make_listed(make_runtime(**HERE | {"state": "broken", "why": NOT_INSTALLED})),
            make_listed(make_runtime(**HERE | {"state": "blocked", "why": BLOCKED})),
            make_listed(smart_app_control="on"),
            make_listed(suited="", driver="560.94", driver_needed="580.0"),
            make_listed(make_runtime(suits_card=False), suited="", driver_needed="580.0"),
            make_listed(suited=""),
        ):
            over.say(listed)
            settle()
            assert over.card.isVisible(), listed
            assert list(cut_off(over.card)) == [], listed
            assert over.program.window.width() == 1024, listed
