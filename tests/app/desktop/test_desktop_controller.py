import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from app import desktop
from app.desktop.windows_rules import Progress
from engine.core.errors import DiskFull


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Progress, float]]:
    def show_progress(_window: object, state: Progress, share: float = 0.0) -> None:
        seen.append((state, share))

    seen: list[tuple[Progress, float]] = []
    monkeypatch.setattr(desktop, "show_progress", show_progress)
    monkeypatch.setattr(QApplication, "activeWindow", staticmethod(lambda: None))
    return seen


def test_the_button_follows_the_running_film(bench, shown):
    bench.add()
    assert shown == []
    bench.do("start")
    bench.advance(120)
    assert shown[-1] == (Progress.RUNNING, 0.5)
    count = len(shown)
    bench.advance(120)
    assert len(shown) == count  # nothing new is nothing to say
    bench.do("pause")
    assert shown[-1] == (Progress.PAUSED, 0.5)
    bench.do("pause")
    bench.finish()
    assert shown[-1] == (Progress.NONE, 0.0)
    bench.start("two.mp4")
    bench.fail(DiskFull("folder", folder="/films").info())
    assert shown[-1] == (Progress.FAILED, 1.0)  # until the window is looked at
    QApplication.sendEvent(bench.window, QEvent(QEvent.Type.WindowActivate))
    assert shown[-1] == (Progress.NONE, 0.0)


def test_the_button_goes_on_across_the_films_of_a_queue(bench, shown):
    for name in ("one.mp4", "two.mp4"):
        bench.add(name)
    bench.do("start")
    bench.advance(120)
    assert shown[-1] == (Progress.RUNNING, 0.25)
    bench.finish()
    bench.advance(120)
    assert shown[-1] == (Progress.RUNNING, 0.75)
    assert Progress.NONE not in [state for state, _ in shown]  # not between films either
    shares = [share for state, share in shown if state is Progress.RUNNING]
    assert shares == sorted(shares)
    bench.finish()
    assert shown[-1] == (Progress.NONE, 0.0)
    bench.start("three.mp4")
    bench.advance(120)
    assert shown[-1] == (Progress.RUNNING, 0.5)  # another queue
    bench.do("cancel")
    assert shown[-1] == (Progress.NONE, 0.0)


def test_the_user_is_called_once_when_the_last_film_is_done(bench, shown):
    called: list[object] = []
    bench.patch.setattr(QApplication, "alert", staticmethod(called.append))
    bench.add("one.mp4")
    bench.start("two.mp4")
    bench.finish()
    assert called == []
    bench.finish()
    assert called == [bench.window]


def test_started_again_the_window_comes_back_with_the_files(bench, tmp_path):
    bench.window.showMinimized()
    bench.program.come_forward([tmp_path / "film.mp4", tmp_path / "a.latent"])
    bench.hear()
    assert not bench.window.isMinimized()
    assert [row.source.name for row in bench.program.queue.rows][:1] == ["film.mp4"]
