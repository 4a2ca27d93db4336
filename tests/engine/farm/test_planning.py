"""Whether a plan lets other computers in, and what it says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from engine.bench.cases.farm import COUNTS, FASTER, LINKS, SpanTimes, film_of, simulate
from engine.core.geometry import Size
from engine.farm import planning
from engine.farm.planning import SharedJob
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Learned, Rates
from engine.protocol.plan import Notice, Plan, WorkerPlan
from engine.settings.schema import JobSettings
from tests.engine.planner.test_workers import planned, processor
from tests.helpers.plans import a_media

RECORD = Path(__file__).parents[3] / "docs/benchmarks/farm-cpu-xeon-2-cores.json"
KIND = "lite-x2-cpu-libx264"
AS_FAST = 1.0  # the nominal computer has the eight threads of this one
NAMES = ("Studio PC", "Laptop", "Attic", "Cellar")


def with_others(
    *factors: float | None,
    costs: Mapping[str, float] | None = None,
    frames: int = 24000,
    size: Size = Size(640, 360),
    **settings: object,
) -> Plan:
    """A plan with paired computers: seconds of each over those of this one; None: not known."""
    paired = {f"{number:x}" * 64: NAMES[number % 4] for number in range(len(factors))}
    jobs = {
        f"{KIND} on {planning.machine_title(one)}": Learned(factor=factor)
        for one, factor in zip(paired, factors, strict=True)
        if factor is not None
    }
    request = Request(
        media=a_media(frame_count=frames, duration=None, size=size),
        settings=JobSettings(**{"model": "lite", "treatment": "faithful", "scale": 2} | settings),
        output=Path("out.mkv"),
        machines=paired,
    )
    return plan_job(request, processor(), Rates(jobs=jobs, costs=costs or {}))


def said(plan: Plan, code: str) -> list[Notice]:
    assert plan.reasons is not None
    return [choice for choice in plan.reasons.choices if choice.code == code]


def seconds(plan: Plan, code: str) -> float:
    (notice,) = said(plan, code)
    return float(str(notice.params["seconds"]))


def chosen(plan: Plan) -> list[str]:
    return [choice.code for choice in plan.reasons.choices]


def test_this_computer_computes_as_it_would_alone() -> None:
    alone, together = planned(processor()), planned(processor(), machines="all")
    assert together.takes_machines
    assert not alone.takes_machines
    assert together.workers == (WorkerPlan(),)
    assert together.work == alone.work
    assert together.picture == alone.picture
    assert together.seconds >= alone.seconds
    assert 1 < together.span_segments < 24
    assert "machines" in chosen(together)
    assert "workers" not in chosen(together)


def test_processes_of_this_computer_stay() -> None:
    four, together = (
        planned(processor(), workers=4),
        planned(processor(), workers=4, machines="all"),
    )
    assert together.workers == four.workers
    assert together.work == four.work
    assert chosen(together)[-3:-1] == ["workers", "machines"]


def test_what_cannot_be_read_elsewhere_is_made_here() -> None:
    settings = JobSettings(model="lite", treatment="faithful", machines="all")
    for kind, frames, case in (("sequence", 300, "pictures"), ("image", 1, "picture")):
        media = replace(a_media(frame_count=frames, duration=None), kind=kind, container="image2")
        request = Request(media=media, settings=settings, output=Path("out.mkv"))
        plan = plan_job(request, processor(), Rates())
        assert not plan.takes_machines
        assert [one.case for one in plan.notices if one.code == "machines-unused"] == [case]


def test_the_time_with_paired_computers_stands_next_to_that_of_this_one() -> None:
    alone = with_others(machines="all")
    plan = with_others(AS_FAST, None, AS_FAST / 2, machines="all")
    compared = next(stage.seconds for stage in plan.stages if stage.stage == "verify")
    shared = (plan.seconds - compared) / (1 + 1 + 2)  # as fast as this one, and twice as fast
    assert seconds(plan, "machines-together") == pytest.approx(shared + compared, rel=0.05)
    (together,) = said(plan, "machines-together")
    assert together.params["names"] == ("Studio PC", "Attic")
    assert "Studio PC, Attic" in together.message
    assert [one.params["names"] for one in said(plan, "machines-not-counted")] == [("Laptop",)]
    assert plan.seconds == alone.seconds
    assert not said(alone, "machines-together")
    assert not said(alone, "machines-not-counted")
    assert not said(with_others(AS_FAST), "machines-together")  # they are not let in


def test_an_earlier_film_of_the_same_model_tells_the_speed_of_another_encoder() -> None:
    plan = with_others(AS_FAST, machines="all", codec="hevc")
    assert said(plan, "machines-together")


def test_one_more_computer_helps() -> None:
    alone, two = with_others(machines="all"), with_others(AS_FAST, machines="all")
    assert [one.case for one in said(alone, "one-more-machine")] == ["helps"]
    assert seconds(alone, "one-more-machine") == pytest.approx(
        seconds(two, "machines-together"), rel=0.01
    )
    assert seconds(two, "one-more-machine") < seconds(two, "machines-together")


HD = Size(1920, 1080)
FAST = 12 * (AS_FAST / 12,)
_NO_COMPARISON = {"verify": 1e-6, "check": 1e-6}


@pytest.mark.parametrize(
    ("case", "factors", "costs", "settings"),
    [
        ("join", FAST, {"read": 1e-4}, {}),
        ("survey", FAST, {"read": 1.0, **_NO_COMPARISON}, {}),
        ("link", FAST, {"read": 1e-4, "decode-ffv1": 1e-6, **_NO_COMPARISON}, {"codec": "ffv1"}),
        ("spans", 4 * (AS_FAST,), {}, {"segment_seconds": 60.0, "frames": 12_000, "size": HD}),
    ],
)
def test_what_limits_is_named_where_one_more_would_not_help(
    case: str, factors: tuple[float, ...], costs: dict[str, float], settings: dict[str, object]
) -> None:
    plan = with_others(*factors, costs=costs, machines="all", **{"frames": 120_000} | settings)
    (notice,) = said(plan, "one-more-machine")
    assert notice.case == case
    assert notice.message.startswith("One more computer would hardly help: ")
    if case == "link":
        assert float(str(notice.params["needed"])) > 940


def test_a_film_that_is_soon_done_needs_no_other_computers() -> None:
    plan = with_others(AS_FAST, None, frames=500, machines="all")
    assert chosen(plan)[-1] == "machines"
    soon = with_others(*FAST, machines="all")
    assert seconds(soon, "machines-together") < 300 < soon.seconds
    assert not said(soon, "one-more-machine")


def recorded_job(name: str, faster: int, count: int) -> tuple[SharedJob, SpanTimes]:
    """A job of `bench farm`, for the closed form and for the simulation."""
    rows = json.loads(RECORD.read_text("utf-8"))["results"]
    times = film_of(next(row for row in rows if "recorded" in row), count, faster)
    link = LINKS[name]
    job = SharedJob(
        own=(),
        spans=times.span_s,  # by workers of one frame/s
        survey_s=times.spans * times.survey_s,
        source_bytes=times.source_bytes,
        result_bytes=times.result_bytes,
        around_s=times.start_s,
        join_s=times.join_s,
        link_mbit_s=link.mbit_s,
        latency_s=link.latency_s,
    )
    return job, times


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("faster", FASTER)
@pytest.mark.parametrize("count", COUNTS)
def test_the_closed_form_is_within_5_percent_of_the_simulation(
    name: str, faster: int, count: int
) -> None:
    job, times = recorded_job(name, faster, count)
    simulated = simulate(times, count * (1.0,), LINKS[name]).seconds
    assert job.seconds(count * (1.0,)) == pytest.approx(simulated, rel=0.05)


def test_the_closed_form_counts_processes_of_this_computer_without_the_link() -> None:
    job, times = recorded_job("20 Mbit/s", 1, 4)
    job = replace(job, own=(1.0, 1.0))
    speeds = 4 * (1.0,)
    assert job.seconds(()) == pytest.approx(simulate(times, speeds[:2]).seconds, rel=0.05)
    simulated = simulate(times, speeds, LINKS["20 Mbit/s"], near=2).seconds
    assert job.seconds(speeds[2:]) == pytest.approx(simulated, rel=0.05)


def test_the_closed_form_of_round_numbers() -> None:
    # of a span: computed in 10 s, its source sent in 1 s and its result in 3 s, 1 s for four ways
    job = SharedJob(
        own=(),
        spans=4 * (10.0,),
        survey_s=11.0,
        source_bytes=125_000,
        result_bytes=375_000,
        around_s=5.0,
        join_s=2.0,
        link_mbit_s=1.0,
        latency_s=0.25,
    )
    for others, changes, wanted in (
        (1, {}, 4 * 15),
        (1, {"link_mbit_s": 0.0}, 4 * 10),
        # each also waits for the other: 0.8 of 3 s, for 3 of 15 s, so 0.48 s
        (2, {}, 2 * 15.48),
        (4, {}, 10 + 4 * 3),  # the link sends four results after the first span
        (4, {"link_mbit_s": 0.0}, 11 + 10),  # the last span is known after 11 s
        (0, {"own": (1.0,)}, 4 * 10),  # no link
    ):
        found = replace(job, **changes).seconds(others * (1.0,))
        assert found == pytest.approx(5 + wanted + 2), (others, changes)
