"""A family that no file of the engine or the window names does all that a family can do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from app.application import Program
from app.engine_messages import choice_text, text
from app.state.job_row import JobState
from app.status_bar import plan_lines
from engine.bench.cases.models import model_rows
from engine.bench.run import BenchOptions
from engine.core import messages
from engine.core.errors import Cancelled
from engine.core.geometry import Size
from engine.jobs.checkpoint import Checkpoint
from engine.jobs.job import Job
from engine.jobs.job_store import JobStore
from engine.models import registry
from engine.settings.schema import JobSettings
from engine.video.read.probe import probe
from tests.app.conftest import program  # noqa: F401  a window with the real engine
from tests.fake_family.family import FAMILY, NearestPlan
from tests.helpers.clips import make_clip
from tests.helpers.jobs import plan_of, planes_of, run

SETTINGS = {"model": "nearest-2x", "codec": "ffv1", "segment_seconds": 0.5}


@pytest.fixture(autouse=True)
def family() -> Iterator[None]:
    with registry.registered(FAMILY), messages.added(Path(__file__).parent / "messages"):
        yield


@pytest.fixture
def film(tmp_path: Path) -> Path:
    return make_clip(tmp_path / "film.mkv", codec="ffv1", frames=30)


def doubled(film: Path) -> list[np.ndarray]:
    return [plane.repeat(2, 0).repeat(2, 1) for plane in planes_of(film)]


def largest_difference(film: Path, result: Path) -> int:
    pairs = zip(doubled(film), planes_of(result), strict=True)
    return max(int(np.abs(a.astype(int) - b).max()) for a, b in pairs)


def test_it_is_planned_and_runs(film: Path, tmp_path: Path) -> None:
    plan = plan_of(film, tmp_path / "out.mkv", JobSettings(**SETTINGS))
    assert isinstance(plan.work, NearestPlan)
    assert plan.picture.size == Size(192, 128)
    assert {stage.stage for stage in plan.stages} == {
        "read",
        "upscale",
        "restore",
        "write",
        "verify",
    }
    run(plan, tmp_path / "job")
    assert largest_difference(film, plan.output) <= 1  # rounded to 8 bits


def test_an_interrupted_job_is_resumed_from_its_file(film: Path, tmp_path: Path) -> None:
    settings = JobSettings(**SETTINGS)
    plan = plan_of(film, tmp_path / "out.mkv", settings)
    store = JobStore(tmp_path / "jobs")
    folder = store.save(
        Job(id="one", media=probe(film), settings=settings, output=plan.output, plan=plan)
    )
    with pytest.raises(Cancelled):
        run(plan, folder, stop_after=1)
    stored = store.load("one")
    assert isinstance(stored.plan.work, NearestPlan)
    assert stored.plan == plan
    assert [record.frames for record in Checkpoint(folder).records] == [12]
    run(stored.plan, folder)
    assert len(planes_of(plan.output)) == 30
    assert largest_difference(film, plan.output) <= 1


def test_the_window_shows_it_and_runs_it(
    program: Program,  # noqa: F811
    qtbot: QtBot,
    film: Path,
) -> None:
    row = program.queue.find(program.controller.add_file(film))
    assert row is not None
    qtbot.waitUntil(lambda: row.plan is not None, timeout=30_000)
    program.window.choices.choose(SETTINGS)
    qtbot.waitUntil(lambda: row.plan is not None and row.plan.work.family == "nearest")
    assert choice_text("model", "nearest-2x") == "Nearest 2x"
    assert "Nearest 2x · pixels repeated 2 times" in plan_lines(row.plan)[0]
    assert row.plan.reasons is not None
    assert [text(choice) for choice in row.plan.reasons.choices] == [
        "Every pixel becomes 2 x 2 pixels."
    ]
    program.window.actions_["start"].trigger()
    qtbot.waitUntil(lambda: row.state is JobState.DONE, timeout=60_000)
    assert row.report is not None
    assert row.report.passed


def test_it_is_benchmarked() -> None:
    row = next(model_rows(BenchOptions(device="cpu", quick=True, size=Size(32, 32))))
    assert row["model"] == "Nearest 2x"
    assert row["megapixels_per_second"] > 0
