"""Two tiles at once on the pretended GPU: the same bits, no race, nothing left behind."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.errors import Cancelled
from engine.core.geometry import Size
from engine.models.wan.vae.fast import FastWanVae
from engine.ops.lanes import Lanes
from engine.protocol.plan import WorkPlan
from engine.settings.optimisations import DitSwitches, VaeSwitches
from engine.settings.switches import Switches
from tests.helpers.memory import seedvr2_plan, wan_plan
from tests.pretended_gpu.machine import pretended_gpu
from tests.pretended_gpu.shots import pictures

pytestmark = pytest.mark.pretended_gpu

BOTH = {"encode_at_once": 2, "decode_at_once": 2}
TILES = {
    "size": Size(168, 32),
    "encode_tile": Size(80, 80),
    "encode_span": 4,
    "decode_tile": Size(160, 160),
    "decode_span": 2,
}
WHOLE = {"size": Size(216, 48), "decode_tile": Size(208, 208), "decodes_whole_tiles": True}
PINNED = {"park_pin_bytes": 10**9}
WAN = {"size": Size(144, 64), "decode_tile": Size(224, 224), "encode_tile": Size(112, 112)}
Make = Callable[..., Any]
CASES: dict[str, tuple[Make, dict[str, Any], int]] = {
    "seedvr2": (seedvr2_plan, {**TILES, **PINNED}, 21),
    "seedvr2-warm-paged": (seedvr2_plan, {**TILES, "warm_up": 2}, 21),
    "seedvr2-whole-tiles": (seedvr2_plan, {**WHOLE, "decode_span": 2}, 9),
    "wan": (wan_plan, {**WAN, **PINNED, "parks": True}, 33),
}


def planned(name: str, **changes: Any) -> tuple[WorkPlan, int]:
    """A plan for the GPU, and frames of a shot."""
    make, about, frames = CASES[name]
    switches = Switches(vae=VaeSwitches(convolution="3d"), dit=DitSwitches(attention="math"))
    own = {"attention": "math"} if make is seedvr2_plan else {}
    plan = make(device="cuda", switches=switches, **own, **about)
    return replace(plan, **changes), frames


def shown(plan: WorkPlan, frames: int) -> tuple[Tensor, Any]:
    """Pictures, and the GPU that they were made on."""
    with pretended_gpu() as gpu:
        found = pictures(plan, frames)
        gc.collect()
    return found, gpu


@pytest.mark.parametrize("name", CASES)
def test_two_at_once_give_the_bits_of_one_after_the_other(name: str) -> None:
    wanted, one = shown(*planned(name))
    found, both = shown(*planned(name, **BOTH))
    assert torch.equal(found, wanted)
    assert not both.record.problems
    assert both.allocator.allocated == 0
    assert len(both.streams) == len(one.streams) + 2
    assert both.record.launches == one.record.launches


def nothing(*_: object) -> None:
    """In the place of a wait."""




WAITS = {
    "lanes begin too early": ("_fork", "that the default stream may still"),
    "the caller goes on too early": ("_join", "the default stream"),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_missing_wait_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    method, text = WAITS[name]
    monkeypatch.setattr(Lanes, method, nothing)
    with pretended_gpu() as gpu:
        two_lanes()
        gc.collect()
    assert any(text in problem for problem, _ in gpu.record.problems)


def test_with_every_wait_nothing_is_seen() -> None:
    with pretended_gpu() as gpu:
        two_lanes()
        gc.collect()
    assert not gpu.record.problems
    assert gpu.allocator.allocated == 0


def two_lanes() -> None:
    """Pieces that use what the caller made, and give what it uses."""
    device = torch.device("cuda")
    given = torch.ones(4, device=device)

    def piece(_lane: int) -> Generator[None, None, Tensor]:
        part = given * 2
        yield
        return part + 1

    total = torch.zeros(4, device=device)
    for part in Lanes(device, 2).run([piece] * 3):
        total += part
        del part
