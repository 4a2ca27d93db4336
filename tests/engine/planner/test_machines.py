"""Whether a plan lets other computers in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol.plan import Plan, WorkerPlan
from engine.settings.schema import JobSettings
from tests.engine.planner.test_workers import planned, processor
from tests.helpers.plans import a_media


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
    assert chosen(together)[-2:] == ["workers", "machines"]


def test_what_cannot_be_read_elsewhere_is_made_here() -> None:
    settings = JobSettings(model="lite", treatment="faithful", machines="all")
    for kind, frames, case in (("sequence", 300, "pictures"), ("image", 1, "picture")):
        media = replace(a_media(frame_count=frames, duration=None), kind=kind, container="image2")
        request = Request(media=media, settings=settings, output=Path("out.mkv"))
        plan = plan_job(request, processor(), Rates())
        assert not plan.takes_machines
        assert [one.case for one in plan.notices if one.code == "machines-unused"] == [case]
