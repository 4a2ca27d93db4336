"""The window with the real engine: a very small SeedVR2, a real film in, a real film out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from app.application import Program
from app.state.job_row import JobState
from app.ui_state import UiState
from engine.api import Engine, probe
from tests.helpers.clips import Clip, make_clip
from tests.helpers.seedvr2_files import write_seedvr2

_PATIENCE_MS = 90_000


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


def wait(qtbot: QtBot, condition: Callable[[], bool]) -> None:
    qtbot.waitUntil(condition, timeout=_PATIENCE_MS)


def test_a_film_goes_through_seedvr2(program: Program, qtbot: QtBot, tmp_path: Path) -> None:
    source = make_clip(tmp_path / "film.mp4", Clip(frames=6, size=(48, 32), audio_tracks=1))
    output = tmp_path / "result.mp4"
    files = write_seedvr2(tmp_path / "models")
    job_id = program.controller.add_file(source, output=output)
    row = program.queue.find(job_id)
    assert row is not None
    wait(qtbot, lambda: row.plan is not None)
    wanted = dataclasses.asdict(files.settings(strength=80, device="cpu"))
    assert program.window.choices.choose(
        {name: wanted[name] for name in ("model", "strength", "dit", "vae", "text_embedding")}
    )
    wait(qtbot, lambda: row.plan is not None and row.plan.model.model == "seedvr2-3b")
    program.window.do("start")
    wait(qtbot, lambda: row.state not in (JobState.WAITING, JobState.RUNNING))
    assert (row.state, row.error) == (JobState.DONE, None)
    assert row.report is not None
    wrong = {check.code for check in row.report.problems}
    assert wrong <= {"likeness"}  # random numbers redraw at random
    made = probe(output)
    assert (made.video.size.width, made.video.size.height, row.report.frames_out) == (96, 64, 6)
    assert [stream.kind for stream in made.streams if stream.kind != "video"] == ["audio"]


def test_without_its_files_a_film_offers_to_fetch_them(
    program: Program, qtbot: QtBot, tmp_path: Path
) -> None:
    source = make_clip(tmp_path / "film.mp4", Clip(frames=3, size=(48, 32)))
    job_id = program.controller.add_file(source)
    row = program.queue.find(job_id)
    assert row is not None
    wait(qtbot, lambda: row.plan is not None)
    program.window.choices.choose({"model": "seedvr2-7b-sharp"})
    wait(qtbot, lambda: "weights-missing" in row.refusals)
    helps = program.window.findChild(QPushButton, "planHelp")
    assert helps is not None
    assert helps.text() == "Get the model"
    package = program.weights.best_package("seedvr2-7b-sharp")
    assert package is not None
    named = next(n for n in row.plan.notices if n.code == "weights-missing").params["files"]
    assert {file.id for file in package.lacking} == set(named.split(","))
