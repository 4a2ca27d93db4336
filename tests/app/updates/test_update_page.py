"""The page of updates: asked for by the user alone, from the settings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtWidgets import QLabel, QMessageBox, QPushButton, QTextBrowser, QWidget
from pytestqt.qtbot import QtBot

from app.application import Program, start_next
from app.bridge.engine_bridge import EventHub
from app.controllers import restart
from app.state.listings import UpdateModel
from app.state.tasks_model import TasksModel
from app.updates.view import UpdateView
from app.widgets.error_view import ACTION_OF
from engine.core import errors, paths
from engine.core.errors import (
    UpdateDamaged,
    UpdateError,
    UpdateUnreachable,
    UpdateUntrusted,
)
from engine.core.messages import message
from engine.protocol import commands as c
from engine.protocol import events
from engine.updates import installer
from tests.app.conftest import Bench
from tests.helpers.fake_states import NEWER, OWN
from tests.helpers.fake_tasks import UPDATE, FakeTasks
from tests.helpers.servers import Release, faulty_server


def opened(bench: Bench) -> UpdateView:
    """As a user goes there: settings, then the button."""
    bench.do("settings")
    button = bench.program.settings.dialog.findChild(QPushButton, "openUpdates")
    assert button is not None
    button.click()
    bench.hear()
    return bench.program.updates.view


def shown(view: UpdateView) -> str:
    labels = [label.text() for label in view.findChildren(QLabel) if label.isVisible()]
    notes = view.findChild(QTextBrowser)
    return "\n".join([*labels, notes.toPlainText() if notes.isVisible() else ""])


def buttons(view: UpdateView) -> list[str]:
    found = [button for button in view.findChildren(QPushButton) if button.isVisible()]
    return [button.text() for button in found if button.objectName() != "updateClose"]


def press(bench: Bench, name: str) -> None:
    button = bench.program.updates.view.findChild(QPushButton, name)
    assert button is not None
    assert button.isVisible()
    button.click()
    bench.hear()


class Page:
    """The page without a window around it."""

    def __init__(self, qtbot: QtBot) -> None:
        self.hub = EventHub()
        self.model = UpdateModel(self.hub, TasksModel(self.hub))
        self.engine = FakeTasks(self)
        self.view = UpdateView(self.model)
        self.view.requested.connect(self._do)
        qtbot.addWidget(self.view)

    def emit(self, event: events.Event) -> None:
        self.hub.deliver(event)

    def open(self) -> UpdateView:
        self.view.show()
        self._do("check")
        return self.view

    def press(self, name: str) -> None:
        button = self.view.findChild(QPushButton, name)
        assert button is not None
        assert button.isVisible()
        button.click()

    def _do(self, what: str) -> None:
        if what == "stop":
            self.engine.answer(c.StopTask(kind=UPDATE))
        else:
            self.model.tasks.request(UPDATE, what, "")
            self.engine.answer({"check": c.CheckUpdate, "download": c.DownloadUpdate}[what]())


@pytest.fixture
def page(qtbot: QtBot) -> Page:
    return Page(qtbot)


def unreachable() -> UpdateUnreachable:
    return UpdateUnreachable(
        "description",
        host="example.org",
        why=message("reason.transfer.silent"),
        help=message("help.transfer.connection"),
    )


def test_every_error_of_updates_has_a_title_and_a_button() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, UpdateError)]
    assert len(kinds) > 5
    assert {kind.code for kind in kinds} <= set(ACTION_OF)


def test_nothing_is_asked_before_the_button_is_pressed(bench: Bench) -> None:
    bench.do("settings")
    bench.hear()
    assert bench.engine.asked(c.UpdateCommand) == []
    summary = bench.program.settings.dialog.findChild(QLabel, "updateSummary")
    assert "never by itself" in summary.text()
    opened(bench)
    assert bench.engine.asked(c.UpdateCommand) == [c.CheckUpdate()]


def test_from_the_button_to_the_setup(bench: Bench) -> None:
    view = opened(bench)
    assert "Upreel 0.2.0 is available" in shown(view)
    assert "2026-12-01 · 182 MB · you have Upreel 0.1.0" in shown(view)
    assert "Faster.\nSmaller." in shown(view)
    assert buttons(view) == ["Look again", "Download"]
    press(bench, "updateAct")
    assert "61 of 182 MB · 12.0 MB/s · 10 s left" in shown(view)
    assert buttons(view) == ["Stop"]
    bench.engine.tasks.finish(UPDATE)
    bench.hear()
    assert "it is the one that was published" in shown(view)
    assert buttons(view) == ["Look again", "Close Upreel and install"]
    press(bench, "updateAct")
    assert bench.program.updates.starts_setup
    assert bench.program.restart.is_due  # if the setup fails this version comes back
    assert not bench.window.isVisible()


def test_the_newest_version(page: Page) -> None:
    page.engine.found = replace(OWN, was_checked=True)
    view = page.open()
    assert "Upreel 0.1.0 is the newest version." in shown(view)
    assert buttons(view) == ["Look again"]


def test_while_it_looks_and_stop(bench: Bench) -> None:
    bench.engine.tasks.check_waits = True
    view = opened(bench)
    assert "Asking which version is the newest" in shown(view)
    assert buttons(view) == ["Stop"]
    bench.program.updates.open_view()  # once more while it runs
    assert bench.engine.asked(c.CheckUpdate) == [c.CheckUpdate()]
    press(bench, "updateStop")
    assert buttons(view) == ["Look for updates"]


def test_a_download_that_was_stopped_goes_on(page: Page) -> None:
    view = page.open()
    page.press("updateAct")
    page.press("updateStop")
    assert buttons(view) == ["Look again", "Continue"]


def test_not_in_this_build(page: Page) -> None:
    page.engine.found = replace(OWN, is_in_build=False)
    view = page.open()
    assert "This build of Upreel cannot look for updates." in shown(view)
    assert buttons(view) == []


@pytest.mark.parametrize(
    ("how", "what"), [("portable", "unpack it in the place"), ("sources", "runs from its sources")]
)
def test_copies_that_no_setup_made_are_told_what_to_do(page: Page, how: str, what: str) -> None:
    page.engine.found = replace(NEWER, installed_as=how)
    view = page.open()
    assert "Upreel 0.2.0 is available" in shown(view)
    assert what in shown(view)
    assert buttons(view) == ["Look again"]


def test_a_failure_says_why_and_can_be_tried_again(page: Page) -> None:
    page.engine.update_error = unreachable().info()
    view = page.open()
    for words in (
        "The update server does not answer",
        "example.org does not give the newest version",
    ):
        assert words in shown(view)
    assert buttons(view) == ["Look again"]
    page.press("updateCheck")
    assert "0.2.0" in shown(view)
    assert "does not answer" not in shown(view)


def test_what_was_loaded_can_be_installed_without_a_network(page: Page) -> None:
    page.engine.update = replace(NEWER, is_ready=True)
    page.engine.update_error = unreachable().info()
    assert buttons(page.open()) == ["Look again", "Close Upreel and install"]


def test_after_a_wrong_signature_nothing_is_offered(page: Page) -> None:
    page.engine.update = NEWER
    page.engine.update_error = UpdateUntrusted("signature").info()
    view = page.open()
    assert "This update is not from us" in shown(view)
    assert buttons(view) == ["Look again"]


def test_a_setup_that_is_wrong_at_the_last_moment_keeps_the_window(bench: Bench) -> None:
    bench.engine.tasks.found = replace(NEWER, is_ready=True)
    view = opened(bench)
    error = UpdateDamaged("setup", version="0.2.0")
    bench.engine.tasks.update_error = error.info()
    press(bench, "updateAct")
    assert "The setup is damaged" in shown(view)
    assert bench.window.isVisible()
    assert not bench.program.updates.starts_setup


def test_a_queue_that_cannot_be_kept_keeps_window_and_version(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.engine.tasks.found = replace(NEWER, is_ready=True)
    opened(bench)
    monkeypatch.setattr(restart, "write", lambda waiting: "The disk is full.")
    press(bench, "updateAct")
    assert bench.window.isVisible()
    assert not bench.program.updates.starts_setup


@pytest.mark.parametrize("leaves", [True, False])
def test_a_running_film_is_asked_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    bench.add()
    bench.do("start")
    bench.add("waits.mp4")
    bench.engine.tasks.found = replace(NEWER, is_ready=True)
    opened(bench)
    monkeypatch.setattr(bench.window, "confirm_close", lambda: leaves)
    press(bench, "updateAct")
    assert bench.window.isVisible() is not leaves
    assert bench.program.updates.starts_setup is leaves
    kept = paths.data_folder() / "restart.json"
    assert kept.exists() is leaves
    if leaves:  # the film that waits comes along into the new version
        films = json.loads(kept.read_text("utf-8"))["films"]
        assert [Path(film["source"]).name for film in films] == ["waits.mp4"]


def test_a_setup_that_does_not_start_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(QMessageBox, "exec", lambda box: told.append(box.informativeText()))
    assert not bench.program.updates.start_setup()  # this is a checkout
    assert "was not installed by its setup" in told[0]


@pytest.mark.parametrize(
    ("starts_setup", "works", "is_due", "again"),
    [
        (True, True, True, False),  # the setup starts the new version
        (True, False, True, True),  # nobody is left without a program
        (False, False, True, True),
        (False, False, False, False),
    ],
)
def test_what_comes_after_us(
    monkeypatch: pytest.MonkeyPatch, starts_setup: bool, works: bool, is_due: bool, again: bool
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(restart, "start_again", started.append)
    updates = SimpleNamespace(starts_setup=starts_setup, start_setup=lambda: works)
    start_next(SimpleNamespace(updates=updates, restart=SimpleNamespace(is_due=is_due)))
    assert bool(started) is again


def test_in_chinese(bench: Bench) -> None:
    bench.program.use_language("zh_CN")
    view = opened(bench)
    for words in ("有新版本 Upreel 0.2.0", "更快。", "当前版本为 Upreel 0.1.0"):
        assert words in shown(view)
    assert buttons(view) == ["重新查看", "下载"]
    bench.program.use_language("en")
    bench.hear()
    assert "Faster." in shown(view)


def test_every_line_has_room(page: Page) -> None:
    page.engine.update_error = UpdateUnreachable(
        "description", host="a " * 300, why="silent", help="b " * 200
    ).info()
    view = page.open()
    for label in view.findChildren(QLabel):
        if label.isVisible() and label.wordWrap():
            assert label.height() >= label.heightForWidth(label.width()), label.text()


def test_every_control_can_be_reached_by_keyboard(page: Page) -> None:
    view = page.open()
    reached: set[str] = set()
    widget: QWidget = view.focusWidget() or view
    for _ in range(20):
        widget = widget.nextInFocusChain()
        if widget.isVisible() and widget.focusPolicy().value & 1:
            reached.add(widget.objectName())
    assert {"updateCheck", "updateAct", "updateClose", "updateNotes"} <= reached


def test_the_real_engine_from_the_button_to_the_start(
    program: Program, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Path] = []
    monkeypatch.setattr(installer, "_start", started.append)
    for name in ("engine.updates.build.installed_as", "engine.updates.installer.installed_as"):
        monkeypatch.setattr(name, lambda: "setup")
    with faulty_server() as server:
        release = Release(server)
        release.publish()
        folder = release.build(tmp_path / "resources")
        monkeypatch.setattr("engine.updates.build.resource", lambda name: folder / name)
        program.updates.open_view()
        view, model = program.updates.view, program.update_model
        for wanted in ("", "download", "install"):
            if wanted:
                view.requested.emit(wanted)
            qtbot.waitUntil(
                lambda: not model.is_running and bool(model.state.newer), timeout=120_000
            )
            assert model.error is None
        assert program.updates.starts_setup
        program.close()
        assert program.updates.start_setup()
    assert [path.name for path in started] == ["upreel-99.1.0-setup.exe"]
