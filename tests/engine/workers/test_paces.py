"""How fast computers were, and what later plans say of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.farm.identity import Peers
from engine.pipeline.prepare import Machine, make_plan
from engine.planner import learning, machine_times
from engine.planner.rates import load_rates
from engine.protocol.plan import Plan
from engine.settings.schema import EngineSettings, JobSettings
from engine.workers.paces import Paces
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
def paces(clock: Clock) -> Paces:
    return Paces(clock)


def planned(folder: Path, **settings: object) -> Plan:
    wanted = JobSettings(**{"model": "lite", "treatment": "faithful", "scale": 2} | settings)
    media = replace(a_media(frame_count=24_000, duration=None), path=folder / "film.mkv")
    return make_plan(media, wanted, None, Machine(settings=EngineSettings(), jobs_folder=folder))


def learned(plan: Plan, paces: Paces, *owners: str) -> dict[str, float]:
    """Frames/s of the computers that own workers 0, 1, ...; "" for this one."""
    paces.learn(plan, lambda number: owners[number])
    known = load_rates()
    found = {one: machine_times.machine_rate(plan, one, known) for one in owners if one}
    return {one: round(rate, 2) for one, rate in found.items() if rate is not None}


def test_frames_and_seconds_while_the_clock_ran(
    paces: Paces, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt: list[tuple[float, float]] = []
    monkeypatch.setattr(learning, "learn_part", lambda _, *now: learnt.append(now[:2]))
    plan: Any = SimpleNamespace(workers=(1,))
    for at, event, frames in (
        # 20 in 10 s, whatever is learnt meanwhile, and 30 in 15 s
        *((100, "works", 10), (105, "works", 20), (110, "made", 30), (125, "made", 30)),
        *((125, "rests", 0), (200, "works", 4), (202, "made", 14)),  # it waited; 10 in 2 s
    ):
        clock.now = at
        getattr(paces, event)(*(0, frames)[: 1 if event == "rests" else 2])
    paces.learn(plan, lambda _: "")
    assert learnt == [(pytest.approx(60), 27)]


def test_devices_of_a_computer_count_together(paces: Paces, clock: Clock, tmp_path: Path) -> None:
    for number in range(4):
        paces.works(number, 0)
    clock.now = HOUR
    for number in range(4):
        paces.made(number, 36_000)
    found = learned(planned(tmp_path), paces, "", OTHER, OTHER, THIRD)
    assert found == {
        OTHER: pytest.approx(20, rel=0.01),
        THIRD: pytest.approx(10, rel=0.01),
    }


def test_who_has_made_nothing_is_not_known(paces: Paces, clock: Clock, tmp_path: Path) -> None:
    paces.works(1, 8)
    clock.now = HOUR
    paces.rests(1)
    assert learned(planned(tmp_path), paces, "", OTHER) == {}
    assert not load_rates().jobs


@pytest.mark.parametrize("processes", [1, 2])
def test_one_process_of_this_computer_tells_its_own_speed(
    processes: int, paces: Paces, clock: Clock, tmp_path: Path
) -> None:
    plan = planned(tmp_path, machines="all")
    plan = replace(plan, workers=processes * plan.workers)
    shared = plan.seconds - next(one.seconds for one in plan.stages if one.stage == "verify")
    for number in range(processes):
        paces.works(number, 0)
    clock.now = 3 * HOUR
    for number in range(processes):
        paces.made(number, round(plan.frames / shared * HOUR))
    paces.learn(plan, lambda number: "")
    later = planned(tmp_path)
    assert later.is_measured == (processes == 1)
    if processes == 1:
        assert later.seconds == pytest.approx(3 * plan.seconds, rel=0.02)


def test_a_later_plan_counts_with_computers_that_are_still_paired(
    paces: Paces, clock: Clock, tmp_path: Path
) -> None:
    plan = planned(tmp_path)
    peer, new = (
        Peers().add(certificate_of(tmp_path / name), name, "") for name in ("Studio PC", "Laptop")
    )
    paces.works(0, 0)
    paces.works(1, 0)
    clock.now = HOUR
    frames = round(plan.frames / plan.seconds * HOUR)
    paces.made(0, frames)
    paces.made(1, frames)
    paces.learn(plan, (peer.fingerprint, OTHER).__getitem__)  # OTHER was forgotten since
    assert planned(tmp_path).seconds == plan.seconds
    later = planned(tmp_path, machines="all")
    assert later.reasons is not None
    (together,) = (one for one in later.reasons.choices if one.code == "machines-together")
    assert together.params["names"] == ("Studio PC",)
    assert float(str(together.params["seconds"])) < 0.65 * later.seconds
    (unknown,) = (one for one in later.reasons.choices if one.code == "machines-not-counted")
    assert unknown.params["names"] == (new.name,)
