"""A model file that is dropped on the window: imported, described, and used for the film."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.application import Program
from app.state.job_row import JobState
from engine.protocol import commands
from engine.protocol.model_file_state import NetworkFacts, PublishedState
from tests.app.conftest import Bench, dropped, texts
from tests.helpers.clips import make_clip
from tests.helpers.community import RUN, write_network
from tests.helpers.fake_tasks import FILE

_PATIENCE_MS = 90_000
COMPACT = NetworkFacts(architecture="RealESRGAN Compact", scale=4, takes_half=True)


def own(path: Path) -> PublishedState:
    return PublishedState(
        id="own-1",
        title=path.name,
        kind="upscaler",
        models=("community",),
        precision="fp32",
        filename=path.name,
        bytes=2_400_000,
        state="here",
        path=path,
        network=COMPACT,
    )


@pytest.mark.parametrize("name", ["4x_film.pth", "4x_film.safetensors"])
def test_a_drop_opens_the_list_and_imports_the_file(
    bench: Bench, tmp_path: Path, name: str
) -> None:
    bench.program.window.intake.take_drop(dropped(tmp_path / name))
    bench.hear()
    (request,) = bench.asked(commands.ImportModelFile)
    assert (request.path, request.mode) == (tmp_path / name, "copy")
    assert bench.asked(commands.AddJob) == []
    assert f"Importing {name}" in texts(bench.program.models.view)


def test_its_row_says_what_it_is_and_it_is_used_for_the_film(bench: Bench, tmp_path: Path) -> None:
    bench.do("models")
    view = bench.program.models.view
    view.unfold()
    view.resize(1200, 700)  # more than the screen of tests has: nothing is shortened
    bench.engine.tasks.files["own-1"] = own(tmp_path / "4x_film.pth")
    bench.engine.tasks.list(FILE)
    bench.hear()
    said = texts(view)
    assert "4x_film.pth" in said
    assert "RealESRGAN Compact · 4x · also in float16" in said
    bench.add()
    bench.program.models.use("own-1")
    settings = bench.asked(commands.ChangeJob)[-1].settings
    assert settings.model == "community"
    assert settings.model_file == str(tmp_path / "4x_film.pth")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.meshgrid")  # of spandrel's own code
@pytest.mark.filterwarnings("ignore:Initializing zero-element")
@pytest.mark.parametrize("name", RUN)
def test_each_architecture_goes_from_a_drop_to_a_finished_film(
    name: str, program: Program, qtbot: QtBot, tmp_path: Path
) -> None:
    def wait(condition: Callable[[], bool]) -> None:
        qtbot.waitUntil(condition, timeout=_PATIENCE_MS)

    def own_files() -> list[PublishedState]:
        return [file for file in program.model_files.files if file.is_own]

    wait(lambda: program.model_files.is_known)
    program.window.intake.take_drop(dropped(write_network(tmp_path / "tiny.safetensors", name)))
    wait(lambda: bool(own_files()))
    film = make_clip(tmp_path / "film.mkv", codec="ffv1", frames=3)
    row = program.queue.find(program.controller.add_file(film))
    program.models.use(own_files()[0].id)
    wait(lambda: row.plan is not None and row.plan.work.model == "community")
    program.window.do("start")
    wait(lambda: row.state not in (JobState.WAITING, JobState.RUNNING))
    assert (row.state, row.error) == (JobState.DONE, None)
    # networks of random numbers make pictures that look like nothing
    assert {check.code for check in row.report.problems} <= {"likeness", "black"}
    assert row.report.frames_out == 3
