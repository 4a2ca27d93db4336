"""Weights and tiles on their way, each copy as late as it may be: none is read or written early."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.core.geometry import Box, Size
from engine.ops.transfer import tile_canvas
from engine.ops.transfer.tile_canvas import TileSink
from engine.ops.transfer.weight_streaming import GpuBuffers, WeightStream
from engine.tiling.grid import tile_grid
from tests.engine.ops.transfer.test_tile_canvas import fill
from tests.helpers.seedvr2 import random_frames
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

WIDTH = 6


def chain(count: int = 5) -> nn.ModuleList:
    torch.manual_seed(4)
    linears = [nn.Linear(WIDTH, WIDTH + index % 2, bias=False) for index in range(count)]
    return nn.ModuleList(linears).requires_grad_(False)


def forwards(stream: WeightStream, blocks: nn.ModuleList) -> list[Tensor]:
    """Weights that three forwards read; the host issues all of the work at once."""
    found = []
    for _ in range(3):
        for index, block in enumerate(blocks):
            with stream.block(index):
                found.append(block.weight.clone())
    return found


def test_work_finds_its_weights_however_late_it_runs() -> None:
    wanted = [block.weight.clone() for block in chain()]
    for buffers, pinned, resident in product((1, 2, 3), (0, 2, 5), (0, 2)):
        options = {"resident": resident, "buffers": buffers, "pin_bytes": pinned * 256}
        blocks = chain()
        with pretended_gpu() as gpu:
            stream = WeightStream(blocks, device="cuda", **options)
            found = [weight.cpu() for weight in forwards(stream, blocks)]
            stream.close()
        assert not gpu.record.problems, options
        assert all(map(torch.equal, found, 3 * wanted)), options
        assert all(torch.equal(block.weight, w) for block, w in zip(blocks, wanted, strict=True))


@pytest.mark.parametrize("name", ["wait", "release"])  # of work for its copy, and the reverse
def test_a_missing_event_is_a_race(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GpuBuffers, name, lambda *_: None)
    blocks = chain()
    with pretended_gpu() as gpu:
        stream = WeightStream(blocks, device="cuda", resident=0, pin_bytes=10**6)
        forwards(stream, blocks)
    assert gpu.record.problems


def tiled(device: str, blend: int) -> tuple[Any, Any]:
    """A canvas of tiles that come from a device, and the GPU."""
    canvas = Size(50, 37)
    boxes = tile_grid(canvas, Size(24, 20), 8)
    with pretended_gpu() as gpu:
        sink = TileSink(5, canvas)
        shapes = ((5, 3, box.height, box.width) for box in boxes)
        tiles = [random_frames(*shape, dtype=torch.float32).to(device) for shape in shapes]
        fill([sink], tiles, canvas, boxes, blend)
        return sink.result().int(), gpu


@pytest.mark.parametrize("blend", [0, 6])
def test_late_copies_give_the_same_canvas(blend: int) -> None:
    (late, gpu), (direct, _) = (tiled(device, blend) for device in ("cuda", "cpu"))
    assert torch.equal(late, direct)
    assert not gpu.record.problems
    assert "D2H pinned async" in {kind for kind, _ in gpu.record.copies}


def test_pinned_memory_is_two_parts_however_many_come(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, pinned = list[int](), tile_canvas._pinned
    monkeypatch.setattr(tile_canvas, "_pinned", lambda size: taken.append(size) or pinned(size))
    with pretended_gpu():
        sink = TileSink(40, Size(8, 6))
        for start in range(0, 40, 4):
            sink.add(torch.zeros(4, 3, 6, 8, device="cuda"), Box(0, 0, 8, 6), start)
        sink.result()
    assert sum(taken) == 2 * 4 * 6 * 8 * 3 * 2
