import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from PySide6.QtWidgets import QMessageBox, QPushButton, QTextBrowser, QWidget

from app import desktop
from app.application import start_next
from app.controllers import restart
from app.installs.updates_page import UpdatesPage
from engine.core import paths
from engine.core.errors import UpdateDamaged, UpdateOutdated, UpdateUnreachable, UpdateUntrusted
from engine.core.messages import message
from engine.delivery import updates
from engine.protocol import commands as c
from tests.app.conftest import Bench, part, texts
from tests.app.test_narrow_window import cut_off
from tests.helpers.fake_states import NEWER, OWN
from tests.helpers.fake_tasks import UPDATE
from tests.helpers.servers import Release, faulty_server


def opened(bench: Bench) -> UpdatesPage:
    """As a user goes there: settings, then the button."""
    bench.do("settings")
    part(bench.program.settings.dialog, "openUpdates").click()
    bench.hear()
    return bench.program.updates.view


def shown(view: UpdatesPage) -> str:
    notes = view.findChild(QTextBrowser)
    return texts(view) + "\n" + (notes.toPlainText() if notes.isVisible() else "")


def buttons(view: UpdatesPage) -> list[str]:
    found = [button for button in view.findChildren(QPushButton) if button.isVisible()]
    return [button.text() for button in found if button.objectName() != "updateClose"]


def press(bench: Bench, name: str) -> None:
    part(bench.program.updates.view, name).click()
    bench.hear()


UNREACHABLE = UpdateUnreachable(
    "description",
    host="example.org",
    why=message("reason.transfer.silent"),
    help=message("help.transfer.connection"),
).info()


def test_nothing_is_asked_before_the_button_that_leads_to_the_setup(bench):
    bench.do("settings")
    bench.hear()
    assert bench.asked(c.UpdateCommand) == []
    summary = part(bench.program.settings.dialog, "updateSummary")
    assert "never automatically" in summary.text()
    view = opened(bench)
    assert bench.asked(c.UpdateCommand) == [c.CheckUpdate()]
    assert "Upreel 0.2.0 is available" in shown(view)
    assert "2026-12-01 · 182 MB · you have Upreel 0.1.0" in shown(view)
    assert "Faster.\nSmaller." in shown(view)
    assert buttons(view) == ["Check again", "Download"]
    press(bench, "updateAct")
    assert "61 of 182 MB · 12.0 MB/s · 10 s left" in shown(view)
    assert buttons(view) == ["Stop"]
    bench.tasks.finish(UPDATE)
    assert "matches the published one" in shown(view)
    assert buttons(view) == ["Check again", "Close Upreel and install"]
    press(bench, "updateAct")
    assert bench.program.updates.starts_setup
    assert bench.program.restart.is_due  # if the setup fails this version comes back
    assert not bench.window.isVisible()


def test_while_it_looks_and_stop(bench):
    bench.engine.tasks.check_waits = True
    view = opened(bench)
    assert "Checking for updates" in shown(view)
    assert buttons(view) == ["Stop"]
    bench.program.updates.open_view()  # once more while it runs
    assert bench.asked(c.CheckUpdate) == [c.CheckUpdate()]
    press(bench, "updateStop")
    assert buttons(view) == ["Check for updates"]
    bench.engine.tasks.check_waits = False
    for name in ("updateCheck", "updateAct", "updateStop"):
        press(bench, name)
    assert buttons(view) == ["Check again", "Continue"], "of a download that was stopped"


def test_what_is_offered_in_each_situation(bench):
    look = "Check again"
    for found, words, offered in (
        (replace(OWN, was_checked=True), "Upreel 0.1.0 is the latest version.", [look]),
        (replace(OWN, is_in_build=False), "This build of Upreel cannot check for updates.", []),
        (replace(NEWER, installed_as="portable"), "replace this folder", [look]),
        (replace(NEWER, installed_as="sources"), "runs from source", [look]),
    ):
        bench.engine.tasks.found = found
        view = opened(bench)
        assert words in shown(view)
        assert ("Upreel 0.2.0 is available" in shown(view)) is bool(found.newer)
        assert buttons(view) == offered


def test_a_wrong_signature_offers_nothing_and_a_downloaded_setup_needs_no_network(bench):
    for error, words in (
        (UpdateUntrusted("signature"), "This update is not signed by Upreel"),
        (UpdateOutdated("older", version="0.1.9"), "This may not be the newest version"),
    ):
        bench.engine.tasks.update = NEWER
        bench.engine.tasks.update_error = error.info()
        view = opened(bench)
        assert words in shown(view)
        assert buttons(view) == ["Check again"]
    bench.engine.tasks.update = replace(NEWER, is_ready=True)
    bench.engine.tasks.update_error = UNREACHABLE
    assert buttons(opened(bench)) == ["Check again", "Close Upreel and install"]


def test_a_failure_says_why_and_can_be_tried_again(bench):
    bench.engine.tasks.update_error = UNREACHABLE
    view = opened(bench)
    assert "The update server cannot be reached" in shown(view)
    assert "example.org could not be asked for the newest version" in shown(view)
    assert buttons(view) == ["Check again"]
    press(bench, "updateCheck")
    assert "0.2.0" in shown(view)
    assert "cannot be reached" not in shown(view)


def test_an_error_at_the_last_moment_keeps_window_and_version(bench):
    bench.engine.tasks.found = replace(NEWER, is_ready=True)
    view = opened(bench)
    bench.engine.tasks.update_error = UpdateDamaged("setup", version="0.2.0").info()
    press(bench, "updateAct")
    assert "The setup is damaged" in shown(view)
    assert bench.window.isVisible()
    opened(bench)
    bench.patch.setattr(restart, "write", lambda waiting: "The disk is full.")
    press(bench, "updateAct")
    assert bench.window.isVisible()
    assert not bench.program.updates.starts_setup


def test_a_running_film_is_asked_for(bench):
    bench.start()
    bench.add("waits.mp4")
    bench.engine.tasks.found = replace(NEWER, is_ready=True)
    opened(bench)
    kept = paths.data_folder() / "restart.json"
    for leaves in (False, True):
        bench.patch.setattr(bench.window, "confirm_close", lambda leaves=leaves: leaves)
        press(bench, "updateAct")
        assert bench.window.isVisible() is not leaves
        assert bench.program.updates.starts_setup is kept.exists() is leaves
    films = json.loads(kept.read_text("utf-8"))["films"]  # what waits comes along
    assert [Path(film["source"]).name for film in films] == ["waits.mp4"]


def test_a_setup_that_does_not_start_is_reported(bench):
    texts: list[str] = []
    bench.patch.setattr(QMessageBox, "exec", lambda box: texts.append(box.informativeText()))
    assert not bench.program.updates.start_setup()  # this is a checkout
    assert "was not installed with the setup" in texts[0]


def test_what_comes_after_us(monkeypatch):
    started: list[list[str]] = []
    monkeypatch.setattr(desktop, "start_program", started.append)
    for starts_setup, works, is_due, again in (
        (True, True, True, False),  # the setup starts the new version
        (True, False, True, True),  # it did not start: this version starts again
        (False, False, True, True),
        (False, False, False, False),
    ):
        started.clear()
        updates = SimpleNamespace(starts_setup=starts_setup, start_setup=lambda works=works: works)
        start_next(SimpleNamespace(updates=updates, restart=SimpleNamespace(is_due=is_due)))
        assert bool(started) is again, (starts_setup, works, is_due)


def test_in_chinese(bench):
    bench.program.use_language("zh_CN")
    view = opened(bench)
    for words in ("有新版本 Upreel 0.2.0", "更快。", "当前版本为 Upreel 0.1.0"):
        assert words in shown(view)
    assert buttons(view) == ["再次检查", "下载"]
    bench.use_language("en")
    assert "Faster." in shown(view)


def test_every_line_has_room_and_every_control_is_reached_by_keyboard(bench):
    view = opened(bench)
    widget: QWidget = view.focusWidget() or view
    reached = set()
    for _ in range(20):
        widget = widget.nextInFocusChain()
        if widget.isVisible() and widget.focusPolicy().value & 1:
            reached.add(widget.objectName())
    assert {"updateCheck", "updateAct", "updateClose", "updateNotes"} <= reached
    long = {"host": "a " * 300, "why": "silent", "help": "b " * 200}
    bench.engine.tasks.update_error = UpdateUnreachable("description", **long).info()
    opened(bench)
    assert list(cut_off(view)) == []


def test_the_real_engine_from_the_button_to_the_start(program, qtbot, tmp_path, monkeypatch):
    started: list[Path] = []
    monkeypatch.setattr(updates, "_start", started.append)
    monkeypatch.setattr("engine.delivery.manifest.installed_as", lambda: "setup")
    with faulty_server() as server:
        release = Release(server)
        release.publish()
        folder = release.build(tmp_path / "resources")
        monkeypatch.setattr("engine.delivery.manifest.resource", lambda name: folder / name)
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
