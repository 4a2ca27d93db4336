"""The window with the real engine: a very small SeedVR2, a real film in, a real film out."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.state.job_row import JobState
from engine.api import probe
from engine.core.geometry import Size
from engine.files import catalogue, transfer
from engine.protocol import events
from engine.protocol.tasks import TaskKind
from tests.app.conftest import part, texts
from tests.helpers.clips import Clip, make_clip
from tests.helpers.seedvr2 import publish_seedvr2
from tests.helpers.servers import Fault, FaultyServer, faulty_server

pytestmark = pytest.mark.usefixtures("figures_of_published_vaes")

_PATIENCE_MS = 90_000


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    """The very small SeedVR2 as if it were the published one, on a server that cuts connections."""
    with faulty_server() as made:
        known = publish_seedvr2(made, tmp_path / "published")
        made.faults = [Fault(cut_after=100), Fault(cut_after=1000)]
        monkeypatch.setattr(catalogue, "catalogue", lambda: known)
        monkeypatch.setattr(transfer, "_LONGEST_WAIT_S", 0.05)
        yield made


def wait(qtbot: QtBot, condition: Callable[[], bool]) -> None:
    qtbot.waitUntil(condition, timeout=_PATIENCE_MS)


def test_a_film_gets_its_model_and_runs(server, program, qtbot, tmp_path):
    source = make_clip(tmp_path / "film.mp4", Clip(frames=6, size=(48, 32), audio_tracks=1))
    row = program.queue.find(program.controller.add_file(source))
    wait(qtbot, lambda: row.plan is not None and program.model_files.is_known)
    program.window.choices.choose({"model": "seedvr2-3b"})
    wait(qtbot, lambda: "weights-missing" in row.refusals)
    tiles: list[object] = []
    program.bridge.subscribe(events.TileDone, lambda event: tiles.append(event.picture))
    part(program.window, "primaryAction").click()  # download and start
    wait(qtbot, lambda: row.state not in (JobState.WAITING, JobState.RUNNING))
    assert {file.state for file in program.model_files.files} == {"here"}
    assert len(server.asked) == 5  # three files, and one more time after each cut
    assert (row.state, row.error) == (JobState.DONE, None)
    assert any(picture is not None for picture in tiles)
    problems = {check.code for check in row.report.problems}
    assert problems <= {"likeness"}  # random weights redraw at random
    made = probe(row.report.output)
    assert (made.video.size, row.report.frames_out) == (Size(96, 64), 6)
    assert [stream.kind for stream in made.streams if stream.kind != "video"] == ["audio"]


def test_a_model_that_is_not_the_published_one_is_never_used(server, program, qtbot):
    wait(qtbot, lambda: program.model_files.is_known)
    server.files = {path: b"x" * len(content) for path, content in server.files.items()}
    program.models.open_view()
    program.models.view.unfold()
    program.models.act("download", "tiny-dit")
    wait(qtbot, lambda: not program.model_files.running)
    tasks = program.model_files.tasks.of(TaskKind.MODEL_FILE).values()
    assert {task.error.code for task in tasks if task.error is not None} == {"hash-mismatch"}
    assert not any(file.is_here for file in program.model_files.files)
    row = part(program.models.view, "row-tiny-dit")
    assert "This is not the published file" in texts(row)
