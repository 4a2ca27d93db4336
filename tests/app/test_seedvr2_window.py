"""The window with the real engine: a very small SeedVR2, a real film in, a real film out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QLabel, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.application import Program
from app.state.job_row import JobState
from engine.api import probe
from engine.model_files import catalogue
from engine.models.seedvr2.upscaler import SeedVr2
from engine.protocol import events
from engine.protocol.tasks import TaskKind
from engine.settings.schema import SEEDVR2
from tests.helpers.clips import Clip, make_clip
from tests.helpers.seedvr2 import make_three_shots, write_seedvr2
from tests.helpers.servers import Fault, FaultyServer, faulty_server, published

_PATIENCE_MS = 90_000


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    """The very small SeedVR2 as if it were the published one, on a server that cuts connections."""
    files = write_seedvr2(tmp_path / "published")
    kinds = {"dit": files.dit, "vae": files.vae, "text": files.text}
    told = tuple(
        published(
            path.read_bytes(), id=f"tiny-{kind}", kind=kind, models=SEEDVR2, filename=path.name
        )
        for kind, path in kinds.items()
    )
    with faulty_server() as made:
        made.files = {f"/some/body/main/{p.name}": p.read_bytes() for p in kinds.values()}
        made.faults = [Fault(cut_after=100), Fault(cut_after=1000)]
        hosts = {"loopback": made.url + "/{repository}/{revision}/{filename}"}
        known = catalogue.ModelCatalogue(hosts=hosts, files=told)
        monkeypatch.setattr(catalogue, "catalogue", lambda: known)
        yield made


def wait(qtbot: QtBot, condition: Callable[[], bool]) -> None:
    qtbot.waitUntil(condition, timeout=_PATIENCE_MS)


def test_no_clip_of_a_film_goes_across_a_cut(
    program: Program, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    real = SeedVr2.shot

    def shot(self: SeedVr2, start: int, wanted: int, watch: Any) -> Any:
        begun.append(start)
        return real(self, start, wanted, watch)

    monkeypatch.setattr(SeedVr2, "shot", shot)
    source = make_three_shots(tmp_path / "three shots.mkv", (5, 3, 6), "48x32")
    files = write_seedvr2(tmp_path / "mine")
    row = program.queue.find(program.controller.add_file(source))
    assert row is not None
    wait(qtbot, lambda: row.plan is not None)
    named = {"dit": str(files.dit), "vae": str(files.vae), "text_embedding": str(files.text)}
    program.window.choices.choose({"model": "seedvr2-3b", **named})
    wait(qtbot, lambda: row.plan is not None and row.plan.work.family == "seedvr2")
    program.window.do("start")
    wait(qtbot, lambda: row.state is JobState.DONE)
    assert {0, 5, 8} <= set(begun)  # a cut too many costs nothing
    assert row.report is not None
    assert probe(row.report.output).video.frame_count == 14


def test_a_film_gets_its_model_and_runs(
    server: FaultyServer, program: Program, qtbot: QtBot, tmp_path: Path
) -> None:
    source = make_clip(tmp_path / "film.mp4", Clip(frames=3, size=(48, 32)))
    row = program.queue.find(program.controller.add_file(source))
    assert row is not None
    wait(qtbot, lambda: row.plan is not None and program.model_files.is_known)
    program.window.choices.choose({"model": "seedvr2-3b"})
    wait(qtbot, lambda: "weights-missing" in row.refusals)
    helps = program.window.findChild(QPushButton, "planHelp")
    assert helps is not None
    helps.click()
    wait(qtbot, lambda: row.plan is not None and row.plan.fits)
    assert {file.state for file in program.model_files.files} == {"here"}
    assert len(server.asked) == 5  # three files, and one more time after each cut
    program.window.do("start")
    wait(qtbot, lambda: row.state is JobState.DONE)


def test_a_model_that_is_not_the_published_one_is_never_used(
    server: FaultyServer, program: Program, qtbot: QtBot
) -> None:
    wait(qtbot, lambda: program.model_files.is_known)
    server.files = {path: b"x" * len(content) for path, content in server.files.items()}
    program.models.open_view()
    program.models.view.act("get", "tiny-dit")
    wait(qtbot, lambda: not program.model_files.running)
    tasks = program.model_files.tasks.of(TaskKind.MODEL_FILE).values()
    assert {task.error.code for task in tasks if task.error is not None} == {"hash-mismatch"}
    assert not any(file.is_here for file in program.model_files.files)
    row = program.models.view.findChild(QWidget, "model-file-tiny-dit")
    assert row is not None
    words = [label.text() for label in row.findChildren(QLabel)]
    assert "This is not the file that was published" in words


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
    wait(qtbot, lambda: row.plan is not None and row.plan.work.model == "seedvr2-3b")
    tiles: list[object] = []
    program.bridge.subscribe(events.TileDone, lambda event: tiles.append(event.picture))
    program.window.do("start")
    wait(qtbot, lambda: row.state not in (JobState.WAITING, JobState.RUNNING))
    assert (row.state, row.error) == (JobState.DONE, None)
    assert any(picture is not None for picture in tiles)
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
    named = next(n for n in row.plan.notices if n.code == "weights-missing").params["files"]
    transformer = program.model_files.find(named.split(",")[0])
    assert transformer is not None
    assert transformer.precision == "q4"  # there is no card: the smallest
    package = program.model_files.package(transformer)
    assert {file.id for file in package.lacking} == set(named.split(","))
