"""Two tiles at once on the pretended GPU: the same bits, no race, no memory that stays."""

from __future__ import annotations

import gc
from collections.abc import Generator
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.errors import Cancelled
from engine.ops.lanes import Lanes
from tests.helpers.extended import rest_extended
from tests.helpers.memory import RunsOut
from tests.helpers.two_tiles import CASES, FRAME, TILES, seedvr2_decoded
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

USUAL = ("seedvr2-encode", "seedvr2-decode", "wan")
ALL = [
    *rest_extended(USUAL, "seedvr2-encode", "seedvr2-decode"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in CASES if name not in USUAL),
]


def made(name: str, at_once: int) -> tuple[Tensor, Any]:
    """What a case gives, and the GPU that it was made on."""
    run, frame, about = CASES[name]
    with pretended_gpu() as gpu, torch.inference_mode():
        found = run(at_once, frame, **about)
        gc.collect()
    return found, gpu


@pytest.mark.parametrize("name", ALL)
def test_two_at_once_give_the_bits_of_one_after_the_other(name: str) -> None:
    (wanted, one), (found, both) = (made(name, at_once) for at_once in (1, 2))
    assert torch.equal(found, wanted)
    assert not both.record.problems
    assert both.allocator.allocated == 0
    assert len(both.streams) == len(one.streams) + 2
    assert both.record.launches == one.record.launches


def two_lanes() -> None:
    """Pieces that use what the caller made, and give what it uses."""
    device = torch.device("cuda")
    given, total = torch.ones(4, device=device), torch.zeros(4, device=device)

    def piece(_lane: int) -> Generator[None, None, Tensor]:
        part = given * 2
        yield
        return part + 1

    for part in Lanes(device, 2).run([piece] * 3):
        total += part
        del part


@pytest.mark.parametrize("missing", ["", "_fork", "_join"])
def test_a_missing_wait_is_a_race(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing:
        monkeypatch.setattr(Lanes, missing, lambda _: None)
    with pretended_gpu() as gpu:
        two_lanes()
        gc.collect()
    assert bool(gpu.record.problems) == bool(missing)
    assert gpu.allocator.allocated == 0


def test_a_decoder_that_does_not_wait_for_its_tiles_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Lanes, "_join", lambda _: None)
    _, gpu = made("seedvr2-decode", 2)
    assert any("the default stream reads" in text for text, _ in gpu.record.problems)


def test_a_cancelled_tile_leaves_no_memory() -> None:
    passed: list[float] = []

    def advance(_stage: str, frames: float) -> None:
        passed.append(frames)
        if len(passed) == 3:
            raise Cancelled

    with pretended_gpu() as gpu, torch.inference_mode():
        with pytest.raises(Cancelled):
            seedvr2_decoded(2, FRAME, advance=advance, **TILES)
        gc.collect()
    assert not gpu.record.problems
    assert gpu.allocator.allocated == 0


def test_where_memory_runs_out_in_the_middle_none_stays() -> None:
    with pretended_gpu() as gpu, torch.inference_mode():
        with RunsOut() as all_of_them:
            wanted = seedvr2_decoded(2, FRAME, **TILES)
        with RunsOut(all_of_them.count // 2), pytest.raises(torch.OutOfMemoryError):
            seedvr2_decoded(2, FRAME, **TILES)
        gc.collect()
        found = seedvr2_decoded(1, FRAME, **TILES)
        gc.collect()
    assert not gpu.record.problems
    assert gpu.allocator.allocated == 0
    assert torch.equal(found, wanted)
