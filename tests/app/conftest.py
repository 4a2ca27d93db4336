"""A whole window on FakeEngine, and one on the real engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.application import Program
from app.ui_state import UiState
from engine.api import Engine
from tests.helpers.fakes import FakeEngine


class Bench:
    """The program with what tests do to it."""

    def __init__(self, program: Program, engine: FakeEngine) -> None:
        self.program, self.engine, self.window = program, engine, program.window

    def hear(self) -> None:
        """Let the window take everything that the engine has said."""
        self.program.bridge.drain()
        QApplication.processEvents()

    def add(self, name: str = "film.mp4") -> str:
        """Put a film into the queue; the name of its job."""
        job_id = self.program.controller.add_file(Path("films") / name)
        self.hear()
        return job_id

    def do(self, name: str) -> None:
        """Carry out an action and hear the answer."""
        self.window.do(name)
        self.hear()

    def find(self, name: str) -> QWidget:
        """A widget by its objectName."""
        widget = self.window.findChild(QWidget, name)
        assert widget is not None, name
        return widget

    def button(self, name: str) -> QPushButton:
        """A button by its objectName."""
        widget = self.find(name)
        assert isinstance(widget, QPushButton)
        return widget


@pytest.fixture
def bench(qapp: QApplication, qtbot: QtBot, tmp_path: Path) -> Iterator[Bench]:
    """An open window; nothing is in its queue."""
    ui_state = UiState(tmp_path / "window.ini")
    ui_state.language = "en"
    program = Program(qapp, ui_state=ui_state)
    engine = FakeEngine(program.bridge)
    program.attach(engine)
    program.window.resize(1440, 900)
    program.window.show()
    made = Bench(program, engine)
    made.hear()
    yield made
    if program.languages.current != "en":
        program.languages.use("en")
    program.window.hide()
    program.window.deleteLater()
    program.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def program(
    qapp: QApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Program]:
    """An open window with an engine of its own, on a machine without models."""
    for name in ("UPREEL_COMFYUI", "HF_HOME", "HUGGINGFACE_HUB_CACHE", "HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "nobody"))
    ui_state = UiState(tmp_path / "window.ini")
    ui_state.language = "en"
    made = Program(qapp, ui_state=ui_state)
    made.window.show()
    made.attach(Engine(made.bridge))
    yield made
    made.close()
    made.window.hide()
    made.window.deleteLater()
    made.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
