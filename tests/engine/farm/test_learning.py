"""How fast computers were, and what later plans say of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.farm import planning
from engine.farm.identity import Peers
from engine.pipeline.prepare import Machine, make_plan
from engine.planner.rates import load_rates
from engine.protocol.plan import Plan
from engine.settings.schema import EngineSettings, JobSettings
from engine.workers.team import Team
from tests.helpers.farm import certificate_of
from tests.helpers.plans import a_media

OTHER, THIRD = "ab" * 32, "cd" * 32
HOUR = 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def team(clock: Clock) -> Team:
    plan: Any = SimpleNamespace(workers=range(4))
    return Team(plan, None, clock)


def planned(folder: Path, **settings: object) -> Plan:
    wanted = JobSettings(**{"model": "lite", "treatment": "faithful", "scale": 2} | settings)
    media = replace(a_media(frame_count=24_000, duration=None), path=folder / "film.mkv")
    return make_plan(media, wanted, None, Machine(settings=EngineSettings(), jobs_folder=folder))


def learned(plan: Plan, team: Team, *owners: str) -> dict[str, float]:
    """Frames/s of the computers that own workers 0, 1, ...; "" for this one."""
    planning.learn(plan, team.measured, dict(enumerate(owners)))
    known = load_rates()
    found = {one: planning.machine_rate(plan, one, known) for one in owners if one}
    return {one: round(rate, 2) for one, rate in found.items() if rate is not None}


def test_devices_of_a_computer_count_together(team: Team, clock: Clock, tmp_path: Path) -> None:
    for number in range(4):
        team.works(number, 0)
    clock.now = HOUR
    for number in range(4):
        team.made(number, 36_000)
    found = learned(planned(tmp_path), team, "", OTHER, OTHER, THIRD)
    assert found == {
        OTHER: pytest.approx(20, rel=0.01),
        THIRD: pytest.approx(10, rel=0.01),
    }


def test_who_has_made_nothing_is_not_known(team: Team, clock: Clock, tmp_path: Path) -> None:
    team.works(1, 8)
    clock.now = HOUR
    team.rests(1)
    assert learned(planned(tmp_path), team, "", OTHER) == {}
    assert not load_rates().jobs


@pytest.mark.parametrize("processes", [1, 2])
def test_one_process_of_this_computer_tells_its_own_speed(
    processes: int, team: Team, clock: Clock, tmp_path: Path
) -> None:
    plan = planned(tmp_path, machines="all")
    plan = replace(plan, workers=processes * plan.workers)
    shared = plan.seconds - next(one.seconds for one in plan.stages if one.stage == "verify")
    for number in range(processes):
        team.works(number, 0)
    clock.now = 3 * HOUR
    for number in range(processes):
        team.made(number, round(plan.frames / shared * HOUR))
    planning.learn(plan, team.measured, dict.fromkeys(range(processes), ""))
    later = planned(tmp_path)
    assert later.is_measured == (processes == 1)
    if processes == 1:
        assert later.seconds == pytest.approx(3 * plan.seconds, rel=0.02)


def test_a_later_plan_counts_with_computers_that_are_still_paired(
    team: Team, clock: Clock, tmp_path: Path
) -> None:
    plan = planned(tmp_path)
    peer, new = (
        Peers().add(certificate_of(tmp_path / name), name, "") for name in ("Studio PC", "Laptop")
    )
    team.works(0, 0)
    team.works(1, 0)
    clock.now = HOUR
    frames = round(plan.frames / plan.seconds * HOUR)
    team.made(0, frames)
    team.made(1, frames)
    owners = {0: peer.fingerprint, 1: OTHER}  # OTHER was forgotten since
    planning.learn(plan, team.measured, owners)
    assert planned(tmp_path).seconds == plan.seconds
    later = planned(tmp_path, machines="all")
    assert later.reasons is not None
    (together,) = (one for one in later.reasons.choices if one.code == "machines-together")
    assert together.params["names"] == ("Studio PC",)
    assert float(str(together.params["seconds"])) < 0.65 * later.seconds
    (unknown,) = (one for one in later.reasons.choices if one.code == "machines-not-counted")
    assert unknown.params["names"] == (new.name,)
