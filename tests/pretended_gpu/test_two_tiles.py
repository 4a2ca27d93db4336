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
from tests.helpers.extended import extended
from tests.helpers.memory import RunsOut
from tests.helpers.vaes import ROWS, TILED, VaeRow, in_lanes
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

USUAL = [(ROWS["seedvr2"], side, 0) for side in ("encode", "decode")]
OFTEN = [(ROWS["wan 2x"], side, 0) for side in ("encode", "decode")]
ALL = [
    *USUAL,
    *extended(*OFTEN),
    *(
        pytest.param(row, side, early, marks=pytest.mark.slow)
        for row, side in TILED
        for early in (0, 1)
        if (row, side, early) not in (*USUAL, *OFTEN)
    ),
]


def made(row: VaeRow, side: str, at_once: int, **options: Any) -> tuple[Tensor, Any]:
    """Result of a stream, and the GPU that it was made on."""
    with pretended_gpu() as gpu, torch.inference_mode():
        found = in_lanes(row, side, at_once, "cuda", **options)
        gc.collect()
    return found, gpu


@pytest.mark.parametrize(("row", "side", "early"), ALL, ids=str)
def test_two_at_once_give_the_bits_of_one_after_the_other(
    row: VaeRow, side: str, early: int
) -> None:
    (wanted, one), (found, both) = (made(row, side, n, warm_up=early) for n in (1, 2))
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
    _, gpu = made(ROWS["seedvr2"], "decode", 2)
    assert any("the default stream reads" in text for text, _ in gpu.record.problems)


def test_a_cancelled_tile_leaves_no_memory() -> None:
    passed: list[float] = []

    def worked(frames: float) -> None:
        passed.append(frames)
        if len(passed) == 3:
            raise Cancelled

    with pretended_gpu() as gpu, torch.inference_mode():
        with pytest.raises(Cancelled):
            in_lanes(ROWS["seedvr2"], "decode", 2, "cuda", worked=worked)
        gc.collect()
    assert not gpu.record.problems
    assert gpu.allocator.allocated == 0


def test_where_memory_runs_out_in_the_middle_none_stays() -> None:
    with pretended_gpu() as gpu, torch.inference_mode():
        with RunsOut() as all_of_them:
            wanted = in_lanes(ROWS["seedvr2"], "decode", 2, "cuda")
        with RunsOut(all_of_them.count // 2), pytest.raises(torch.OutOfMemoryError):
            in_lanes(ROWS["seedvr2"], "decode", 2, "cuda")
        gc.collect()
        found = in_lanes(ROWS["seedvr2"], "decode", 1, "cuda")
        gc.collect()
    assert not gpu.record.problems
    assert gpu.allocator.allocated == 0
    assert torch.equal(found, wanted)
