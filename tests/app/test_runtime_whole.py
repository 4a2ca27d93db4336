"""From the offer to the next start: window, engine, a server and a stand-in for the runtime."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.application import Program
from app.controllers import restart
from app.state.job_row import JobState
from app.state.runtimes_model import Situation
from engine.core import paths
from engine.files import catalogue as model_files
from engine.hardware import devices
from engine.hardware.devices import Gpu
from engine.runtimes import installation as folders
from engine.runtimes.catalogue import RuntimeCatalogue, catalogue
from tests.app.conftest import part, real_program
from tests.helpers import runtimes
from tests.helpers.clips import Clip, make_clip
from tests.helpers.seedvr2 import publish_seedvr2
from tests.helpers.servers import Fault, FaultyServer, faulty_server

pytestmark = pytest.mark.usefixtures("figures_of_published_vaes")

GPU = Gpu(
    name="NVIDIA GeForce RTX 5070 Ti",
    total_bytes=16 * 2**30,
    free_bytes=15 * 2**30,
    driver="581.29",
    capability=(12, 0),
)
PATIENCE_MS = 30_000


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return runtimes.wheel(tmp_path / "published")


@pytest.fixture
def server(wheel: Path) -> Iterator[FaultyServer]:
    with faulty_server() as server:
        server.files[f"/whl/{runtimes.PLACE}"] = wheel.read_bytes()
        yield server


@pytest.fixture
def known(wheel: Path, server: FaultyServer) -> RuntimeCatalogue:
    """Catalogue of runtimes of the build: one wheel on a local server."""
    return runtimes.catalogue(runtimes.runtime(wheel), index=f"{server.url}/whl")


@pytest.fixture
def tiny(server: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A very small SeedVR2 in the place of the published ones."""
    published = publish_seedvr2(server, tmp_path / "models")
    monkeypatch.setattr(model_files, "catalogue", lambda: published)


@pytest.fixture
def program(
    qapp: QApplication,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    known: RuntimeCatalogue,
) -> Iterator[Program]:
    """A window with an engine, on a machine with a card, in a build that knows the stand-in."""
    folder = tmp_path / "resources"
    folder.mkdir()
    for path in paths.resources().iterdir():
        (folder / path.name).symlink_to(path)
    (folder / "runtime.toml").unlink()
    (folder / "runtime.toml").write_text(runtimes.as_toml(known), "utf-8")
    monkeypatch.setenv("UPREEL_RESOURCES", str(folder))
    monkeypatch.setenv("UPREEL_RUNTIME", "installed")  # as a packed program does
    monkeypatch.setattr(devices, "in_use", lambda: GPU)
    catalogue.cache_clear()
    with real_program(qapp, tmp_path) as made:
        made.window.resize(1280, 760)  # notices stand next to the queue, not in a sheet
        yield made
    catalogue.cache_clear()


def until(qtbot: QtBot, program: Program, situation: Situation) -> None:
    qtbot.waitUntil(
        lambda: program.runtime_model.status.situation is situation, timeout=PATIENCE_MS
    )


def is_coming(program: Program) -> bool:
    task = program.runtime_model.task
    return task is not None and task.done > 0


def press(program: Program, name: str) -> None:
    button = part(program.runtime.card, f"runtime-{name}")
    assert button.isVisible(), name
    button.click()


def test_download_pause_and_the_next_start(program, server, qtbot):
    until(qtbot, program, Situation.OFFER)
    assert "RTX 5070 Ti" in program.runtime.card.accessibleName()
    server.always = Fault(drip=100)
    press(program, "download")
    qtbot.waitUntil(lambda: is_coming(program), timeout=PATIENCE_MS)
    qtbot.wait(QApplication.doubleClickInterval() + 50)
    press(program, "pause")
    until(qtbot, program, Situation.PARTIAL)
    server.always = Fault()
    press(program, "continue")
    until(qtbot, program, Situation.READY)
    assert any(text.startswith("bytes=") and text != "bytes=0-" for text in server.ranges)
    assert runtimes.VERSION in program.runtime.card.accessibleName()
    assert folders.chosen().startswith("cu999-9.9.9-")
    press(program, "restart")
    assert program.restart.is_due
    assert not program.window.isVisible()


def test_a_wheel_from_a_file_then_back_and_away(program, wheel, qtbot, monkeypatch):
    monkeypatch.setattr("app.controllers.runtimes.is_confirmed", lambda *_, **__: True)
    until(qtbot, program, Situation.OFFER)
    program.controller.add_files([wheel])
    until(qtbot, program, Situation.READY)
    program.runtime.act("use", "")
    until(qtbot, program, Situation.BUSY)
    qtbot.waitUntil(lambda: not program.runtime_model.is_running, timeout=PATIENCE_MS)
    qtbot.waitUntil(lambda: not program.runtime.card.isVisible(), timeout=PATIENCE_MS)
    assert folders.chosen() == "", "here, and not wanted: nothing to offer"
    program.runtime.act("remove", "cu999")
    until(qtbot, program, Situation.OFFER)
    assert not list(paths.runtimes_folder().glob("cu999-*"))


def test_one_press_from_a_fresh_profile_to_the_new_start(
    tiny, program, qapp, qtbot, tmp_path, monkeypatch
):
    """Model and runtime come; a second window goes on by itself."""
    monkeypatch.setattr(devices, "gpus", lambda: (GPU,))
    source = make_clip(tmp_path / "film.mp4", Clip(frames=6, size=(48, 32)))
    row = program.queue.find(program.controller.add_file(source))
    qtbot.waitUntil(lambda: "weights-missing" in row.refusals, timeout=PATIENCE_MS)
    assert row.plan.work.device == "cuda"
    part(program.window, "primaryAction").click()
    qtbot.waitUntil(lambda: program.restart.is_due, timeout=PATIENCE_MS)
    assert {file.state for file in program.model_files.files} == {"here"}
    assert folders.chosen().startswith("cu999-9.9.9-")
    monkeypatch.setattr(devices, "gpus", lambda: ())  # there is none: Lite is what "auto" means
    (tmp_path / "next").mkdir()
    with real_program(qapp, tmp_path / "next") as following:
        restart.take_over(following.controller, following.queue, [], following.downloads.expect)
        (row,) = following.queue.rows
        qtbot.waitUntil(lambda: row.state is JobState.DONE, timeout=PATIENCE_MS)
