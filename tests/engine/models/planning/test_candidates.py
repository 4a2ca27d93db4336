"""One decision about a plan: its larger and smaller values, and those after a lack of memory."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.geometry import Size
from engine.core.messages import message
from engine.models.planning.candidates import Axis, steps_of, tile_axis
from engine.models.wan.plan import WanPlan
from engine.protocol.plan import WeightsPlan

FRAME = Size(1936, 1104)
TILES = tile_axis("encode", FRAME, 64, 8)
WHOLE = WanPlan(vae=WeightsPlan(path=Path("a")), size=FRAME, padded=FRAME)
EARLY: Axis[WanPlan] = Axis(
    field="warm_up",
    values=(21, 9, 3),
    more_code="more",
    less_code="less",
    text=lambda plan: message("step.clips", frames=plan.warm_up),
)


@given(st.builds(Size, st.integers(16, 4000), st.integers(16, 4000)), st.booleans())
def test_recovery_ends_at_the_least_tile_in_steps_that_help(frame: Size, whole: bool) -> None:
    axis = tile_axis("encode", frame, 64, 8, whole=whole)
    found = [plan.encode_tile for plan in axis.less(WHOLE)]
    pixels = [tile.pixels for tile in found if tile is not None]
    assert len(pixels) == len(found)
    assert pixels[-1] <= min(256, frame.width) * min(256, frame.height)
    pairs = list(itertools.pairwise(pixels))
    assert all(after <= 0.8 * before for before, after in pairs[:-1])
    assert all(after < before for before, after in pairs)


def test_the_first_tiles_after_whole_frames_repeat_little() -> None:
    tile = next(TILES.less(WHOLE)).encode_tile
    assert tile is not None
    assert 2 * tile.pixels < 1.05 * FRAME.pixels


@pytest.mark.parametrize(
    ("now", "larger", "smaller", "down"),
    [(21, None, 9, (21, 9, 3)), (10, 21, 9, (10, 9, 3)), (3, 9, None, (3,)), (2, 3, None, (2,))],
)
def test_values_that_are_not_listed_have_neighbours(
    now: int, larger: int | None, smaller: int | None, down: tuple[int, ...]
) -> None:
    plan = EARLY.on(WHOLE, now)
    found = [one and one.warm_up for one in (EARLY.larger(plan), EARLY.smaller(plan))]
    assert found == [larger, smaller]
    assert EARLY.down(plan) == down
    values = [(step.code, step.work.warm_up) for step in steps_of(plan, [EARLY])]
    named = zip(("more", "less"), (larger, smaller), strict=True)
    assert values == [(code, value) for code, value in named if value is not None]


def test_smaller_tiles_have_no_longer_side() -> None:
    wanted = Size(512, 512)
    first, *smaller = TILES.down(TILES.on(WHOLE, wanted))
    assert first == wanted
    assert smaller
    assert all(max(tile.width, tile.height) <= 512 for tile in smaller)
    assert TILES.down(WHOLE) == tuple(TILES.values)
