"""Transfers to and from a GPU and TF32, under every switch of the machine."""

from contextlib import nullcontext
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from engine.core.errors import NumericOverflow
from engine.core.geometry import Box, Size
from engine.ops.kernels.block_formats import BLOCKS
from engine.ops.linear.gguf import dequantise
from engine.ops.precision import arithmetic_of, using
from engine.ops.transfer.tile_canvas import TileSink
from engine.ops.transfer.weight_streaming import WeightStream
from engine.settings.optimisations import RunSwitches
from tests.helpers.model_files import random_blocks

pytestmark = pytest.mark.gpu

WIDTH, COUNT = 2048, 8


def chain() -> nn.ModuleList:
    torch.manual_seed(8)
    linears = [nn.Linear(WIDTH, WIDTH) for _ in range(COUNT)]
    return nn.ModuleList(linears).requires_grad_(False).half()


def run(blocks: nn.ModuleList, x: Tensor, stream: WeightStream | None) -> Tensor:
    for index, block in enumerate(blocks):
        with stream.block(index) if stream else nullcontext():
            x = torch.tanh(block(x))
    return x


SWITCHES = {
    "usual": RunSwitches(),
    "nothing pinned": RunSwitches(pinned_transfers=False),
    "one stream for tiles": RunSwitches(copy_stream=False),
    "one stream for weights": RunSwitches(weights_stream=False),
    "all off": RunSwitches.all_off(),
}


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_bits_of_resident_weights(dtype: torch.dtype, switches: RunSwitches) -> None:
    x = torch.randn(64, WIDTH, device="cuda", dtype=dtype)
    wanted = run(chain().to("cuda", dtype), x, None)
    for resident, buffers, pin_bytes in product((0, 3), (1, 2, 3), (0, 30 * 2**20, 10**9)):
        blocks = chain()
        options = {"resident": resident, "buffers": buffers, "pin_bytes": pin_bytes}
        with using(switches), WeightStream(blocks, device="cuda", dtype=dtype, **options) as stream:
            assert (stream.pinned_bytes > 0) == (pin_bytes > 0 and switches.pinned_transfers)
            assert stream.pinned_bytes <= pin_bytes
            for _ in range(3):
                assert torch.equal(run(blocks, x, stream), wanted), options


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_tiles_leave_as_they_are(switches: RunSwitches, dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    size, box = Size(48, 32), Box(0, 0, 48, 32)
    tiles = [(torch.rand(4, 3, 32, 48, device="cuda") * 2.2 - 1.1).to(dtype) for _ in range(5)]
    with using(switches):
        sink, wanted = TileSink(20, size), TileSink(20, size)
        for index, tile in enumerate(tiles):
            sink.add(tile, box, 4 * index)
            wanted.add(tile.cpu(), box, 4 * index)
        difference = (sink.result().int() - wanted.result().int()).abs()
        assert difference.max() <= 1  # a tie may be rounded up or down
        sink.add(torch.full_like(tiles[0], torch.inf), box, 0)
        with pytest.raises(NumericOverflow):
            sink.check()


@pytest.mark.real_gpu("a processor has no TF32")
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


def test_memory_is_that_of_the_buffers() -> None:
    x = torch.randn(64, WIDTH, device="cuda", dtype=torch.float16)
    run(chain().to("cuda"), x, None)  # cuBLAS takes its workspace with the first product
    blocks = chain()
    before, requested = torch.cuda.memory_allocated(), requested_bytes()
    with WeightStream(blocks, device="cuda", resident=0, pin_bytes=10**9) as stream:
        run(blocks, x, stream)
        torch.cuda.synchronize()
        held = requested_bytes() - requested
        assert stream.buffer_bytes <= held <= 1.01 * stream.buffer_bytes + 2**20
    assert torch.cuda.memory_allocated() - before <= 2**20


def requested_bytes() -> int:
    """Without what the allocator adds: up to 1 MiB where it does not split a block."""
    return int(torch.cuda.memory_stats()["requested_bytes.all.current"])


@pytest.mark.real_gpu("nothing runs at the same time")
def test_copies_run_during_the_computation() -> None:
    """The profiler sees copies to the GPU that overlap kernels."""
    x = torch.randn(8192, WIDTH, device="cuda", dtype=torch.float16)
    blocks = chain()
    with WeightStream(blocks, device="cuda", resident=0, pin_bytes=10**9) as stream:
        run(blocks, x, stream)
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            run(blocks, x, stream)
            torch.cuda.synchronize()
    events = [(e.name, e.time_range.start, e.time_range.end) for e in profile.events()]
    copies = [(begin, end) for name, begin, end in events if "HtoD" in name]
    kernels = [(begin, end) for name, begin, end in events if "Mem" not in name]
    together = sum(
        max(0.0, min(end, last) - max(begin, first))
        for begin, end in copies
        for first, last in kernels
    )
    assert len(copies) >= COUNT - 2
    assert together >= 0.5 * sum(end - begin for begin, end in copies[:-2])


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_gpu_gives_the_same_gguf_values(kind: str) -> None:
    raw = random_blocks(kind, 300)
    wanted = dequantise(raw, kind, (300, BLOCKS[kind].values))
    found = dequantise(raw.cuda(), kind, (300, BLOCKS[kind].values))
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-6, atol=1e-6)
