"""A whole window on FakeEngine, and one on the real engine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QMimeData, QObject, QUrl
from PySide6.QtWidgets import QApplication, QDialog, QLabel, QMainWindow, QMenu, QWidget
from pytestqt.qtbot import QtBot

from app import desktop
from app.application import Program
from app.ui_state import UiState
from engine.api import Engine
from engine.core.errors import ErrorInfo
from engine.protocol import commands, events
from engine.protocol.gpu_reading import GpuReading
from tests.helpers.fake_tasks import FILE
from tests.helpers.fakes import FakeEngine


def part(parent: QObject, name: str, kind: type[QObject] = QWidget) -> Any:
    """What lies below another object, by its objectName."""
    found = parent.findChild(kind, name)
    assert found is not None, name
    return found


def texts(parent: QWidget) -> str:
    """Texts of all visible labels, a line each."""
    return "\n".join(one.text() for one in parent.findChildren(QLabel) if one.isVisible())


def dropped(*files: Path) -> QMimeData:
    """What a window gets when these files are dropped."""
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(file)) for file in files])
    return mime


class HeardTasks:
    """Tasks of a FakeEngine; the window hears what is done to them."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def __getattr__(self, name: str) -> Callable[..., None]:
        def done(*given: object, **values: object) -> None:
            getattr(self._bench.engine.tasks, name)(*given, **values)
            self._bench.hear()

        return done


class Bench:
    """The program with what tests do to it."""

    def __init__(self, program: Program, patch: pytest.MonkeyPatch) -> None:
        self.program, self.window, self.patch = program, program.window, patch
        self.engine = FakeEngine(program.bridge)
        self.tasks = HeardTasks(self)

    def hear(self) -> None:
        """Let the window take everything that the engine has said."""
        while self.program.bridge.drain():
            pass
        for _ in range(2):  # views follow a change of the queue one turn later
            QApplication.processEvents()

    def emit(self, event: events.Event) -> None:
        """Let the engine emit an event, and hear it."""
        self.engine.sink.emit(event)
        self.hear()

    def add(self, name: str = "film.mp4") -> str:
        """Put a film into the queue; the name of its job."""
        job_id = self.program.controller.add_file(Path("films") / name)
        self.hear()
        return job_id

    def start(self, name: str = "film.mp4") -> str:
        """Put a film into the queue and start it; the name of its job."""
        job_id = self.add(name)
        self.do("start")
        return job_id

    def advance(self, done: int) -> None:
        """Let the running job finish n frames."""
        self.engine.advance(done)
        self.hear()

    def finish(self, failed: tuple[str, ...] = ()) -> None:
        """Let the running job end, well but for the checks that fail."""
        self.engine.finish(failed=failed)
        self.hear()

    def fail(self, error: ErrorInfo) -> None:
        """Let the running job end badly."""
        self.engine.fail(error)
        self.hear()

    def finish_files(self) -> None:
        """Let every download of a model file end well."""
        while self.engine.tasks.waiting(FILE):
            self.tasks.finish(FILE)
        self.hear()  # what was answered while we listened

    def measure(self, *gpus: GpuReading | None) -> None:
        """Let the engine say what it measured of the machine."""
        self.engine.emit_telemetry(*gpus)
        self.hear()

    def select(self, job_id: str) -> None:
        """Select a card of the queue."""
        self.window.queue_column.view.select(job_id)
        self.hear()

    def use_language(self, language: str) -> None:
        """Show everything in another language."""
        self.program.use_language(language)
        self.hear()

    def do(self, name: str) -> None:
        """Carry out an action and hear the answer."""
        self.window.actions_[name].trigger()
        self.hear()

    def choose(self, **choices: object) -> None:
        """Choose settings for the selected film and the next ones."""
        self.window.choices.choose(choices)
        self.hear()

    def find(self, name: str) -> Any:
        """A widget by its objectName."""
        return part(self.window, name)

    def press(self, name: str) -> None:
        """Press a button and hear the answer."""
        self.find(name).click()
        self.hear()

    def asked(self, kind: type[commands.Command]) -> list[Any]:
        """Every command of one class so far."""
        return self.engine.asked(kind)


def _end(program: Program) -> None:
    program.window.hide()
    program.window.deleteLater()
    program.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QApplication.instance().setStyleSheet("")  # or the next window is dressed with each addWidget


def _opened(qapp: QApplication, folder: Path) -> Program:
    ui_state = UiState(folder / "window.ini")
    ui_state.language = "en"
    return Program(qapp, ui_state=ui_state)


@pytest.fixture
def bench(
    qapp: QApplication, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    """An open window; nothing is in its queue."""
    program = _opened(qapp, tmp_path)
    made = Bench(program, monkeypatch)
    program.attach(made.engine)
    program.window.resize(1440, 900)
    program.window.show()
    made.hear()
    yield made
    if program.languages.current != "en":
        program.languages.use("en")
    _end(program)


@contextmanager
def real_program(qapp: QApplication, folder: Path) -> Iterator[Program]:
    """An open window with an engine of its own."""
    made = _opened(qapp, folder)
    made.window.show()
    made.attach(Engine(made.bridge))
    yield made
    made.close()
    _end(made)


@pytest.fixture
def program(
    qapp: QApplication, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Program]:
    """An open window with an engine of its own, on a machine without models."""
    for name in ("UPREEL_COMFYUI", "HF_HOME", "HUGGINGFACE_HUB_CACHE", "HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "missing"))
    with real_program(qapp, tmp_path) as made:
        yield made


@pytest.fixture(autouse=True)
def _no_window_flashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails a test in which the program shows a part before it has its place: a window flashes."""
    real, flashes = QWidget.setVisible, list[str]()

    def set_visible(widget: QWidget, is_visible: bool) -> None:
        is_window = isinstance(widget, (QMainWindow, QDialog, QMenu))
        caller = sys._getframe(1).f_globals["__name__"]
        if is_visible and not is_window and not widget.parent() and caller.startswith("app."):
            flashes.append(f"{type(widget).__name__} {widget.objectName()!r} in {caller}")
        real(widget, is_visible)

    monkeypatch.setattr(QWidget, "setVisible", set_visible)
    monkeypatch.setattr(QWidget, "show", lambda widget: widget.setVisible(True))
    yield
    assert not flashes


class Computer:
    """Keeps what it is asked; `obeys` is its answer."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[object] = []
        self.obeys = True
        patch.setattr(desktop, "sleep", lambda: self._take("sleep"))
        patch.setattr(desktop, "shut_down", lambda: self._take("shut-down"))
        patch.setattr(desktop, "start_program", self._take)
        patch.setattr(QApplication, "beep", staticmethod(lambda: self._take("sound")))

    def _take(self, what: object) -> bool:
        self.asked.append(what)
        return self.obeys


@pytest.fixture
def computer(monkeypatch: pytest.MonkeyPatch) -> Computer:
    """A computer that only writes down what it is asked to do after the queue."""
    return Computer(monkeypatch)


@pytest.fixture
def two_presses(qapp: QApplication) -> Iterator[None]:
    """Two presses in a row are no double click."""
    interval = QApplication.doubleClickInterval()
    QApplication.setDoubleClickInterval(0)
    yield
    QApplication.setDoubleClickInterval(interval)
