"""Streamed weights on a GPU: the bits of resident ones, and copies during the computation."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from engine.ops.transfer.weight_streaming import WeightStream

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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("pin_bytes", [0, 30 * 2**20, 10**9])
def test_bits_of_resident_weights(dtype: torch.dtype, pin_bytes: int) -> None:
    x = torch.randn(64, WIDTH, device="cuda", dtype=dtype)
    wanted = run(chain().to("cuda", dtype), x, None)
    for resident, buffers in product((0, 3), (1, 2, 3)):
        blocks = chain()
        options = {"resident": resident, "buffers": buffers, "pin_bytes": pin_bytes}
        with WeightStream(blocks, device="cuda", dtype=dtype, **options) as stream:
            assert (stream.pinned_bytes > 0) == (pin_bytes > 0)
            assert stream.pinned_bytes <= pin_bytes
            for _ in range(3):
                assert torch.equal(run(blocks, x, stream), wanted), options


def test_memory_is_that_of_the_buffers() -> None:
    x = torch.randn(64, WIDTH, device="cuda", dtype=torch.float16)
    blocks = chain()
    before = torch.cuda.memory_allocated()
    with WeightStream(blocks, device="cuda", resident=0, pin_bytes=10**9) as stream:
        run(blocks, x, stream)
        torch.cuda.synchronize()
        held = torch.cuda.memory_allocated() - before
        assert stream.buffer_bytes <= held <= 1.01 * stream.buffer_bytes + 2**20
    assert torch.cuda.memory_allocated() - before <= 2**20


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
