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
def engine(tmp_path: Path, heard: Listener, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path / "data"))
    card = api.pretended("RTX 5070 Ti", "12 GB")
    made = Engine(
        heard,
        settings=EngineSettings(threads=2),
        jobs_folder=tmp_path / "jobs",
        pretend=card,
    )
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


def test_work_of_the_processor_is_done_all_the_same(
    engine: Engine, heard: Listener, tmp_path: Path
) -> None:
    film = make_clip(tmp_path / "film.mkv", Clip(frames=3))
    engine.send(c.AddJob(job_id="a", source=film, settings=JobSettings(device="cpu")))
    engine.send(c.StartQueue())
    assert isinstance(heard.wait(*ENDS), e.JobFinished)


def test_presets_are_those_of_the_card(engine: Engine, heard: Listener) -> None:
    engine.send(c.ListPresets())
    said = heard.wait(e.PresetsListed)
    assert said.card == "RTX 5070 Ti, 12 GB"
    assert said.presets[0].tier == "10gb"
    engine.send(c.SavePreset(title="Mine", settings=JobSettings(crf=20)))
    assert heard.wait(e.PresetsListed).presets[-1].title == "Mine"
    engine.send(c.RemovePreset(name="nobody"))
    assert heard.wait(e.TaskFailed).error.hint
