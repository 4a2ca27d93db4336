import pytest
from PySide6.QtWidgets import QApplication, QSystemTrayIcon

from app.controllers.job_display import TrayController
from engine.core.errors import DiskFull
from tests.app.conftest import Bench


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Titles and texts of the notifications."""
    said: list[tuple[str, str]] = []
    monkeypatch.setattr(QSystemTrayIcon, "isSystemTrayAvailable", staticmethod(lambda: True))
    monkeypatch.setattr(
        QSystemTrayIcon, "showMessage", lambda _icon, title, text, _kind: said.append((title, text))
    )
    monkeypatch.setattr(QApplication, "activeWindow", staticmethod(lambda: None))
    return said


def _tray(bench: Bench) -> TrayController:
    program = bench.program
    return TrayController(bench.window, program.controller, program.queue)


def test_one_notification_for_each_queue(bench, said):
    _tray(bench)
    for name in ("one.mp4", "two.mp4"):
        bench.add(name)
    bench.start("three.mp4")
    bench.finish()
    bench.fail(DiskFull("folder", folder="/films").info())
    assert said == []
    bench.finish()
    assert said == [("Queue finished", "Finished: 2 · failed: 1")]
    bench.start("four.mp4")
    bench.finish()
    assert said[1:] == [("Queue finished", "Finished: 1 · failed: 0")]


def test_who_looks_at_the_window_is_not_notified(bench, said):
    _tray(bench)
    bench.patch.setattr(QApplication, "activeWindow", staticmethod(lambda: bench.window))
    bench.start()
    bench.finish()
    assert said == []


def test_the_icon_tells_how_far_the_queue_is_and_a_click_opens_the_window(bench, said, qtbot):
    tray = _tray(bench)
    bench.start("one.mp4")
    bench.add("two.mp4")
    bench.advance(120)
    assert tray.icon.toolTip() == "Upreel\none.mp4 · 50%\n1 queued"
    with qtbot.waitSignal(tray.opened):
        tray.icon.activated.emit(QSystemTrayIcon.ActivationReason.Trigger)
    with qtbot.assertNotEmitted(tray.opened):
        tray.icon.activated.emit(QSystemTrayIcon.ActivationReason.Context)


def test_without_a_tray_there_is_no_icon(bench, monkeypatch):
    monkeypatch.setattr(QSystemTrayIcon, "isSystemTrayAvailable", staticmethod(lambda: False))
    assert _tray(bench).icon is None
    bench.start()
    bench.finish()
