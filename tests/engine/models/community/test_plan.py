"""What is planned for a community model, from figures alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.core.errors import NumericOverflow
from engine.core.geometry import Size
from engine.core.serialization import from_plain, to_plain
from engine.models.community.family import FAMILY
from engine.models.community.plan import (
    CommunityPlan,
    Growth,
    NetworkCall,
    NetworkCost,
    within_seconds,
)
from engine.models.community.upscaler import CommunityUpscaler, growth
from engine.protocol.model_file_state import NetworkFacts
from engine.protocol.plan import WeightsPlan

FACTS = NetworkFacts(architecture="SwinIR", scale=4, least=16, multiple=8, dislikes_tiles=True)


def plan(operations: float = 1e4, **values: object) -> CommunityPlan:
    frame = Size(1280, 720)
    made = CommunityPlan(
        frame=frame,
        tile=frame,
        overlap=32,
        weights=WeightsPlan(path=Path("a.pth")),
        network=FACTS,
        call=NetworkCall(dtype="float32"),
        cost=NetworkCost(working=Growth(each=1000.0), operations=Growth(each=operations)),
    )
    return replace(made, **values)


def as_it_is(plan: CommunityPlan) -> CommunityPlan:
    return plan


def test_frames_are_cut_until_a_tile_takes_seconds() -> None:
    assert within_seconds(plan(), as_it_is).tile == Size(1280, 720)
    heavy = within_seconds(plan(operations=3e7), as_it_is)
    assert heavy.tile_operations <= 4e12
    assert heavy.tiles > 1
    endless = within_seconds(plan(operations=1e15), as_it_is)
    assert min(endless.tile.width, endless.tile.height) == 128


def test_a_smaller_plan_needs_less_down_to_the_smallest() -> None:
    work, needs = plan(), []
    while work is not None:
        needs.append(FAMILY.needs(work).device)
        work = FAMILY.smaller(work)
    assert len(needs) > 2
    # cutting a frame at all adds its canvas; from there on less is less
    assert needs[1:] == sorted(needs[1:], reverse=True)


def test_tiles_of_networks_that_look_at_whole_frames_are_noticed() -> None:
    budget = None
    assert list(FAMILY.notices(plan(), budget)) == []
    tiled = plan(tile=Size(640, 720))
    (notice,) = FAMILY.notices(tiled, budget)
    assert (notice.code, notice.severity) == ("tiles-may-differ", "warning")


@pytest.mark.parametrize(
    ("size", "wanted"),
    [(Size(10, 20), Size(16, 24)), (Size(64, 64), Size(64, 64)), (Size(65, 71), Size(72, 72))],
)
def test_frames_are_extended_as_the_network_says(size: Size, wanted: Size) -> None:
    assert FACTS.extended(size) == wanted
    side = max(wanted.width, wanted.height)
    assert replace(FACTS, is_square=True).extended(size) == Size(side, side)


def test_measurements_give_a_line_or_a_curve_beyond_them() -> None:
    pixels = [100, 400, 900]
    line = growth(pixels, [7 + 3 * p for p in pixels])
    assert (round(line.fixed), round(line.each), line.square) == (7, 3, 0)
    curve = growth(pixels, [7 + 3 * p + 0.5 * p * p for p in pixels])
    assert curve.at(2000) == pytest.approx(7 + 3 * 2000 + 0.5 * 2000**2)


def test_between_measurements_a_step_is_not_smoothed() -> None:
    step = growth([100, 400, 900, 1600], [10, 20, 200, 220])
    assert [step.at(p) for p in (100, 400, 900, 1600)] == [10, 20, 200, 220]
    assert step.at(1250) == pytest.approx(210)
    assert step.at(50) <= 10


def test_a_measured_value_counts_more_than_the_curve() -> None:
    curve = growth([100, 400, 900], [10.0, 40.0, 400.0])
    known = curve.joined(5000, 600.0)
    assert curve.at(5000) > 1000
    assert known.at(5000) == 600
    assert known.joined(900, 300.0).at(900) == 300
    assert known.square == curve.square


def test_a_plan_is_read_as_it_was_written() -> None:
    cost = NetworkCost(working=growth([100, 400, 900], [10.0, 20.0, 200.0]))
    work = plan(cost=cost)
    assert from_plain(CommunityPlan, json.loads(json.dumps(to_plain(work)))) == work


def test_values_that_grow_too_large_for_float16_are_reported() -> None:
    class Overflows(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = torch.nn.Conv2d(3, 3, 1)

        def __call__(self, picture: torch.Tensor) -> torch.Tensor:
            return picture.repeat_interleave(4, -1).repeat_interleave(4, -2) * torch.nan

    upscaler = CommunityUpscaler(Overflows(), FACTS, NetworkCall(dtype="float16"))
    with pytest.raises(NumericOverflow):
        upscaler.upscale(torch.rand(1, 3, 8, 8))


@pytest.mark.parametrize(
    ("scale", "factor", "code"),
    [
        (4, 4.0, None),
        (4, 2.0, "model-makes-more"),
        (4, 0.5, "model-makes-more"),
        (2, 4.0, "beyond-model"),
        (1, 1.0, None),
        (1, 2.0, "model-keeps-size"),
    ],
)
def test_a_plan_says_what_besides_the_model_makes_the_size(
    scale: int, factor: float, code: str | None
) -> None:
    work = plan(network=replace(FACTS, scale=scale))
    found = list(FAMILY.size_notices(work, factor))
    assert [notice.code for notice in found] == ([code] if code else [])
    assert all(f"{factor:.3g} times" in str(notice.message) for notice in found)
