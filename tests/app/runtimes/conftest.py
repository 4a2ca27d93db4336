"""The bar and the page with their links, in a window that holds nothing else: those are quick."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.bridge.engine_bridge import EngineBridge
from app.controllers.queue import QueueController
from app.controllers.restart import RestartController
from app.controllers.runtimes import RuntimesController
from app.state.queue_model import QueueModel
from app.state.runtimes_model import RuntimesModel
from app.state.tasks_model import TasksModel
from app.ui_state import UiState
from engine.protocol import commands, events
from tests.app.conftest import Bench
from tests.helpers.fake_states import make_listed, make_older, make_runtime
from tests.helpers.fake_tasks import RUNTIME, FakeTasks
from tests.helpers.fakes import FakeEngine


class Window(QWidget):
    """The part of MainWindow that the links use."""

    page_requested = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._column = QVBoxLayout(self)

    def add_bar(self, bar: QWidget) -> None:
        self._column.addWidget(bar)


class Program:
    """The part of the program that is about runtimes."""

    def __init__(self, window: Window, ui_state: UiState) -> None:
        self.ui_state, self.window = ui_state, window
        self.bridge = EngineBridge(window)
        self.engine = FakeEngine(self.bridge)
        hub = self.bridge
        self.queue = QueueModel(hub, window)
        self.runtime_model = RuntimesModel(hub, TasksModel(hub, window), window)
        self.controller = QueueController(hub, self.queue, window)
        self.restart = RestartController(window, self.controller, self.queue)
        self.runtime = RuntimesController(
            window, self.controller, self.runtime_model, self.restart, ui_state, hub
        )
        self.controller.attach(self.engine)
        self.runtime.look()

    def hear(self) -> None:
        self.bridge.drain()
        QApplication.processEvents()


class Over:
    """The bar over a window, on a machine with a card."""

    def __init__(self, program: Any, engine: FakeEngine, hear: Any) -> None:
        self.program, self.commands, self.hear = program, engine, hear
        self.engine: FakeTasks = engine.tasks
        self.link, self.bar = program.runtime, program.runtime.bar
        self.say()

    def say(self, listed: events.RuntimesListed | None = None) -> None:
        self.engine.runtimes = listed or make_listed()
        self.engine.list(RUNTIME)
        self.hear()

    def put(self, **changes: Any) -> None:
        self.say(make_listed(make_runtime(**changes), make_older()))

    def texts(self, part: QWidget | None = None) -> str:
        labels = (part or self.bar).findChildren(QLabel)
        return "\n".join(label.text() for label in labels if label.isVisible() and label.text())

    def offered(self) -> list[str]:
        buttons = self.bar.findChildren(QPushButton)
        return [b.objectName().removeprefix("runtime-") for b in buttons if b.isVisible()]

    def press(self, name: str) -> None:
        button = self.bar.findChild(QPushButton, f"runtime-{name}")
        assert button is not None
        assert button.isVisible(), (name, self.offered())
        button.click()
        self.hear()

    def asked(self, kind: type[commands.Command]) -> list[Any]:
        return self.commands.asked(kind)

    def answer(self, monkeypatch: pytest.MonkeyPatch, yes: bool) -> list[str]:
        """Answer every question; what was asked."""
        questions: list[str] = []

        def confirmed(_: object, text: str, details: str = "", **__: str) -> bool:
            questions.append(f"{text} {details}")
            return yes

        monkeypatch.setattr("app.controllers.runtimes.is_confirmed", confirmed)
        return questions


@pytest.fixture
def _two_presses() -> Iterator[None]:
    """Two presses in a row are two presses."""
    interval = QApplication.doubleClickInterval()
    QApplication.setDoubleClickInterval(0)
    yield
    QApplication.setDoubleClickInterval(interval)


@pytest.fixture
def over(qtbot: QtBot, tmp_path: Path, _two_presses: None) -> Over:
    window = Window()
    qtbot.addWidget(window)
    window.resize(1280, 200)
    window.show()
    program = Program(window, UiState(tmp_path / "window.ini"))
    return Over(program, program.engine, program.hear)


@pytest.fixture
def whole(bench: Bench, _two_presses: None) -> Over:
    """Over the real window."""
    return Over(bench.program, bench.engine, bench.hear)
