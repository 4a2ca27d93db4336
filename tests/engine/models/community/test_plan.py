"""What is planned for a community model, from figures alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.core.errors import NumericOverflow
from engine.core.geometry import Size
from engine.core.serialization import from_plain, to_plain
from engine.files.model_files import named
from engine.models.community.family import FAMILY
from engine.models.community.plan import (
    CommunityPlan,
    NetworkCall,
    NetworkCost,
    within_seconds,
)
from engine.models.community.upscaler import CommunityUpscaler, with_cost
from engine.protocol.model_file_state import NetworkFacts
from engine.protocol.plan import WeightsPlan
from tests.helpers.community import write_network

FACTS = NetworkFacts(architecture="SwinIR", scale=4, least=16, multiple=8, dislikes_tiles=True)


def plan(**values: object) -> CommunityPlan:
    frame = Size(1280, 720)
    made = CommunityPlan(
        frame=frame,
        tile=frame,
        overlap=32,
        weights=WeightsPlan(path=Path("a.pth")),
        network=FACTS,
        call=NetworkCall(dtype="float32"),
        cost=NetworkCost(),
    )
    return replace(made, **values)


def costing(each: float) -> Callable[[CommunityPlan], CommunityPlan]:
    """Gives plans a cost: so many operations for a pixel."""

    def with_cost(plan: CommunityPlan) -> CommunityPlan:
        return replace(plan, cost=NetworkCost(operations=round(each * plan.tile.pixels)))

    return with_cost


def test_frames_are_cut_until_a_tile_takes_seconds() -> None:
    assert within_seconds(plan(), costing(1e4)).tile == Size(1280, 720)
    heavy = within_seconds(plan(), costing(3e7))
    assert heavy.cost.operations <= 4e12
    assert heavy.tiles > 1
    endless = within_seconds(plan(), costing(1e15))
    assert min(endless.tile.width, endless.tile.height) == 128


def test_a_smaller_plan_needs_less_down_to_the_smallest(tmp_path: Path) -> None:
    path = write_network(tmp_path / "a.pth", upscale=4)
    work, needs = plan(weights=named(path)), []
    while work is not None:
        work = with_cost(work)
        needs.append(FAMILY.needs(work).device)
        smaller = FAMILY.smaller(work)
        assert smaller is None or smaller == with_cost(smaller)
        work = smaller
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


def test_a_plan_is_read_as_it_was_written() -> None:
    work = plan(cost=NetworkCost(weights=7, working=20, operations=300))
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
