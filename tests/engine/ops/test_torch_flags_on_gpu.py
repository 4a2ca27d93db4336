"""Switches of the machine on a GPU: transfers give the same bits, TF32 rounds. Not run yet."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from engine.core.geometry import Box, Size
from engine.ops.precision import arithmetic_of
from engine.ops.torch_flags import using
from engine.ops.transfer.tile_canvas import TileSink
from engine.ops.transfer.weight_streaming import WeightStream
from engine.settings.optimisations import RunSwitches

pytestmark = pytest.mark.gpu

WIDTH = 256
WAYS = {
    "usual": RunSwitches(),
    "nothing pinned": RunSwitches(pinned_transfers=False),
    "one stream for tiles": RunSwitches(copy_stream=False),
    "one stream for weights": RunSwitches(weights_stream=False),
    "all off": RunSwitches.all_off(),
}


@pytest.mark.parametrize("switches", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("pin_bytes", [0, 10**9])
def test_streamed_weights_have_the_bits_of_resident_ones(
    switches: RunSwitches, pin_bytes: int
) -> None:
    torch.manual_seed(8)
    linears = [nn.Linear(WIDTH, WIDTH) for _ in range(6)]
    blocks = nn.ModuleList(linears).requires_grad_(False).half()
    x = torch.randn(64, WIDTH, device="cuda", dtype=torch.float16)
    wanted = x
    for block in linears:
        wanted = torch.tanh(F.linear(wanted, block.weight.cuda(), block.bias.cuda()))
    options = {"device": "cuda", "resident": 1, "pin_bytes": pin_bytes}
    with using(switches), WeightStream(blocks, **options) as stream:
        assert (stream.pinned_bytes > 0) == (pin_bytes > 0 and switches.pinned_transfers)
        for _ in range(3):
            found = x
            for index, block in enumerate(blocks):
                with stream.block(index):
                    found = torch.tanh(block(found))
            assert torch.equal(found, wanted)


@pytest.mark.parametrize("switches", WAYS.values(), ids=WAYS)
def test_tiles_leave_as_they_are(switches: RunSwitches) -> None:
    torch.manual_seed(3)
    tiles = [torch.rand(4, 3, 32, 48, device="cuda") * 2 - 1 for _ in range(5)]
    wanted = TileSink(20, Size(48, 32))
    with using(switches):
        sink = TileSink(20, Size(48, 32))
        for index, tile in enumerate(tiles):
            sink.add(tile, Box(0, 0, 48, 32), 4 * index)
            wanted.add(tile.cpu(), Box(0, 0, 48, 32), 4 * index)
        difference = (sink.result().int() - wanted.result().int()).abs()
    assert difference.max() <= 1  # a tie may be rounded the other way


def test_tf32_rounds_and_is_put_back() -> None:
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("no TF32 before capability 8.0")
    torch.manual_seed(1)
    a, b = (torch.randn(512, 512, device="cuda") for _ in range(2))
    exact = a.double() @ b.double()
    for tf32 in (False, True, False):
        with arithmetic_of(RunSwitches(tf32=tf32)):
            error = ((a @ b).double() - exact).abs().max() / exact.abs().max()
        assert (error > 1e-5) == tf32
