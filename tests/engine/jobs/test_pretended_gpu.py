"""A program with a pretended card plans for it, names presets for it, and starts nothing on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import api
from engine.api import Engine
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.clips import Clip, make_clip
from tests.helpers.jobs import ENDS, Listener


@pytest.fixture
def heard() -> Listener:
    return Listener()


@pytest.fixture
def engine(tmp_path: Path, heard: Listener) -> Iterator[Engine]:
    card = api.pretended("RTX 5070 Ti", "12 GB")
    settings = EngineSettings(threads=2)
    made = Engine(heard, settings=settings, jobs_folder=tmp_path / "jobs", pretend=card)
    made.start()
    yield made
    assert made.close(timeout_s=60)


def test_plans_are_for_the_card_and_a_start_is_refused(
    engine: Engine, heard: Listener, tmp_path: Path
) -> None:
    film = make_clip(tmp_path / "film.mkv", Clip(frames=3))
    engine.send(c.AddJob(job_id="a", source=film))
    plan = heard.wait(e.PlanChosen).plan
    assert (plan.card, plan.is_pretended, plan.fits) == ("RTX 5070 Ti, 12 GB", True, False)
    assert plan.work.device == "cuda"
    assert plan.device_budget_bytes == 10 * 2**30
    engine.send(c.StartQueue())
    ended = heard.wait(*ENDS)
    assert isinstance(ended, e.JobFailed)
    assert ended.error.code == "pretended-card"
    assert "RTX 5070 Ti" in ended.error.message
    assert [path.name for path in tmp_path.glob("film*")] == ["film.mkv"]
    engine.send(c.AddJob(job_id="b", source=film, settings=JobSettings(device="cpu")))
    assert isinstance(heard.wait(*ENDS), e.JobFinished), "the processor's work is done"


def test_presets_are_those_of_the_gpu(engine: Engine, heard: Listener) -> None:
    engine.send(c.ListPresets())
    said = heard.wait(e.PresetsListed)
    assert said.card == "RTX 5070 Ti, 12 GB"
    assert said.presets[0].tier == "10gb"
