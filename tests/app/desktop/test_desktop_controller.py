"""What is seen of the queue outside the window."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from app import desktop
from app.desktop.windows_rules import Progress
from engine.core.errors import DiskFull
from tests.app.conftest import Bench


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Progress, float]]:
    seen: list[tuple[Progress, float]] = []
    monkeypatch.setattr(
        desktop, "show_progress", lambda _window, state, share=0.0: seen.append((state, share))
    )
    monkeypatch.setattr(QApplication, "activeWindow", staticmethod(lambda: None))
    return seen


def test_the_button_follows_the_running_film(
    bench: Bench, shown: list[tuple[Progress, float]]
) -> None:
    bench.add()
    assert shown == []
    bench.do("start")
    bench.engine.advance(120)
    bench.hear()
    assert shown[-1] == (Progress.RUNNING, 0.5)
    count = len(shown)
    bench.engine.advance(120)
    bench.hear()
    assert len(shown) == count  # nothing new is nothing to say
    bench.do("pause")
    assert shown[-1] == (Progress.PAUSED, 0.5)
    bench.do("resume")
    bench.engine.finish()
    bench.hear()
    assert shown[-1] == (Progress.NONE, 0.0)


def test_a_failure_stays_until_the_window_is_looked_at(
    bench: Bench, shown: list[tuple[Progress, float]]
) -> None:
    bench.add()
    bench.do("start")
    bench.engine.fail(DiskFull("folder", folder="/films").info())
    bench.hear()
    assert shown[-1] == (Progress.FAILED, 1.0)
    QApplication.sendEvent(bench.window, QEvent(QEvent.Type.WindowActivate))
    assert shown[-1] == (Progress.NONE, 0.0)


def test_the_user_is_called_once_when_the_last_film_is_done(
    bench: Bench, shown: list[tuple[Progress, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[object] = []
    monkeypatch.setattr(QApplication, "alert", staticmethod(called.append))
    bench.add("one.mp4")
    bench.add("two.mp4")
    bench.do("start")
    bench.engine.finish()
    bench.hear()
    assert called == []
    bench.engine.finish()
    bench.hear()
    assert called == [bench.window]


def test_started_again_the_window_comes_back_with_the_files(bench: Bench, tmp_path: Path) -> None:
    bench.window.showMinimized()
    bench.program.come_forward([tmp_path / "film.mp4", tmp_path / "a.latent"])
    bench.hear()
    assert not bench.window.isMinimized()
    assert [row.source.name for row in bench.program.queue.rows][:1] == ["film.mp4"]
