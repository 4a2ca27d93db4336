"""Two tiles at once: which plans have them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.geometry import Size
from engine.core.messages import text_of
from engine.hardware import gpu_table
from engine.hardware.budget import pretended_budget
from engine.models import registry
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from tests.helpers.plans import a_media

GIB = 2**30


@pytest.fixture(autouse=True)
def _no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPREEL_MODELS", str(tmp_path))


def planned(switches: str, vram_gib: float = 24, gpu: str = "RTX 5090", **wanted: Any) -> Plan:
    budget = pretended_budget(gpu_table.find(gpu), ram_bytes=48 * GIB)
    budget = replace(budget, vram_bytes=round(vram_gib * GIB))
    settings = JobSettings(**{"model": "seedvr2-3b", "switches": switches, **wanted})
    return plan_job(Request(media=a_media(size=Size(960, 540)), settings=settings), budget, Rates())


ON = "run.two_tiles=on"


def at_once(plan: Plan) -> tuple[int, int]:
    work: Any = plan.work
    return work.encode_at_once, work.decode_at_once


def needs(plan: Plan) -> dict[str, int]:
    return registry.family_of(plan.work).needs(plan.work).stages


def test_plans_take_two_where_they_fit_and_say_so() -> None:
    usual, both = (planned(switches, encode_tile=256, decode_tile=0) for switches in ("", ON))
    assert at_once(usual) == (1, 1)
    assert at_once(both) == (2, 1)  # whole frames of the decoder
    assert needs(both)["encode"] > needs(usual)["encode"]
    assert needs(both)["decode"] == needs(usual)["decode"]
    alike = replace(both.work, encode_at_once=1, switches=usual.work.switches)
    assert alike == usual.work
    assert both.reasons is not None
    codes = {one.code: text_of(one.as_message) for one in both.reasons.choices}
    assert codes["at-once"] == "2 tiles are computed at the same time."


@pytest.mark.parametrize(
    "about",
    [
        {"encode_tile": 0, "decode_tile": 0},  # whole frames
        {"encode_tile": 256, "device": "cpu"},
    ],
)
def test_plans_take_one_where_there_are_no_tiles(about: dict[str, Any]) -> None:
    assert at_once(planned(ON, **about)) == (1, 1)


def test_plans_take_one_where_the_vae_is_compiled() -> None:
    assert at_once(planned(f"{ON},vae.compile=on", encode_tile=256)) == (1, 1)


def test_plans_take_one_where_there_is_no_room_for_two() -> None:
    """In between fewer blocks may stay, which makes room for two again."""
    sizes = (4.0, 5.0, 6.0, 8.0, 12.0, 24.0)
    plans = [planned(ON, vram, encode_tile=512, decode_tile=256) for vram in sizes]
    assert at_once(plans[0])[0] == 1
    assert at_once(plans[-1]) == (2, 2)
    assert all(plan.device_bytes <= plan.device_budget_bytes for plan in plans)


@pytest.mark.parametrize("stage", ["encode", "decode"])
@pytest.mark.parametrize("model", ["seedvr2-3b", "wan-2x"])
def test_where_memory_runs_out_one_at_a_time_is_tried_first(model: str, stage: str) -> None:
    plan = planned("", model=model, encode_tile=512, decode_tile=512)
    work: Any = replace(plan.work, encode_at_once=2, decode_at_once=2, parks=True)
    family = registry.family_of(work)
    less = family.smaller(work, stage)
    assert less is not None
    assert getattr(less, f"{stage}_at_once") == 1
    assert replace(less, encode_at_once=2, decode_at_once=2) == work
    (change,) = family.changes(work, less)
    assert text_of(change) == "one tile at a time instead of two"
    assert family.needs(less).stages[stage] < family.needs(work).stages[stage]
