"""Faults planted on purpose: each of them is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.core.geometry import Box, Size
from engine.ops.kernels import grids, token_rows
from engine.ops.norm import token_passes
from engine.ops.transfer import tile_canvas
from engine.ops.transfer.tile_canvas import TileSink
from engine.ops.transfer.weight_streaming import GpuBuffers, WeightStream
from tests.pretended_gpu.kernels import PretendedModule
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

Transfer: Any = tile_canvas._StreamTransfer


def weights(pin_bytes: int = 10**6) -> None:
    """Blocks whose weights visit the GPU."""
    torch.manual_seed(1)
    blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(5)]).requires_grad_(False)
    x = torch.randn(3, 8, device="cuda")
    with WeightStream(blocks, device="cuda", resident=1, pin_bytes=pin_bytes) as stream:
        for _ in range(2):
            for index, block in enumerate(blocks):
                with stream.block(index):
                    x = torch.tanh(block(x))
            stream.release()


def staged() -> None:
    """The same, assembled for each use in a little pinned memory."""
    weights(pin_bytes=2 * 512)


def tiles() -> None:
    """Tiles that leave the GPU."""
    sink = TileSink(8, Size(16, 16))
    for start in range(0, 8, 2):
        sink.add(torch.rand(2, 3, 16, 16, device="cuda") * 2 - 1, Box(0, 0, 16, 16), start)
    sink.result()


def rows() -> None:
    """A kernel on rows."""
    x = torch.randn(6, 64, device="cuda")
    factors = torch.randn(2, 64, device="cuda")
    token_passes.rms_modulate(x, factors[0], factors[1], 1e-5, torch.empty_like(x))


def problems(work: Callable[[], object]) -> list[str]:
    with pretended_gpu() as gpu:
        work()
    return [text for text, _ in gpu.record.problems]


@pytest.mark.parametrize("work", [weights, staged, tiles, rows])
def test_the_program_as_it_is_has_none(work: Callable[[], object]) -> None:
    assert problems(work) == []


def nothing(*_: object) -> None:
    """In the place of a wait."""


def received_early(self: Any) -> None:
    part = self._pending.popleft()
    self._arrive(part.pinned, part.place)
    self._buffers.append(part.buffer)


def sent(waits: bool = True, holds: bool = True, keeps: bool = False) -> Callable[..., None]:
    """`send` of the transfer of tiles, without one of its steps."""

    def send(self: Any, codes: Tensor, place: Any) -> None:
        if len(self._pending) == 2:
            self._receive()
        buffer, pinned = self._free_buffer(codes)
        if keeps:
            self._buffers.insert(0, buffer)  # while it is still being filled
        if waits:
            self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            pinned.copy_(codes, non_blocking=True)
            done = self._event()
            done.record(self._stream)
        part = codes if holds else None
        self._pending.append(tile_canvas._PendingPart(buffer, pinned, part, place, done))

    return send


def staged_early(self: Any, block: Any, slot: Any) -> None:
    self._open(slot)
    source = block.host or slot.staging
    if source is slot.staging:
        block.write(source.flat)  # though the GPU may still read the block before
    if slot.released is not None:
        self._copies.wait_event(slot.released)
    with torch.cuda.stream(self._copies):
        size = block.tensors.nbytes
        slot.flat[:size].copy_(source.flat[:size], non_blocking=True)
    slot.filled = self._copies.record_event()


IN_PROGRAM: dict[str, tuple[Callable[[], object], Any, str, Any, str]] = {
    "no wait for a copy": (weights, GpuBuffers, "wait", nothing, "may still write"),
    "no event after work": (weights, GpuBuffers, "release", nothing, "may still read"),
    "staging too early": (staged, GpuBuffers, "copy", staged_early, "may still read"),
    "host reads too early": (tiles, Transfer, "_receive", received_early, "may still write"),
    "copy before its tile": (tiles, Transfer, "send", sent(waits=False), "may still write"),
    "tile freed too early": (tiles, Transfer, "send", sent(holds=False), "freed while"),
}


@pytest.mark.parametrize("name", IN_PROGRAM)
def test_a_missing_step_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work, owner, method, faulty, text = IN_PROGRAM[name]
    monkeypatch.setattr(owner, method, faulty)
    assert any(text in problem for problem in problems(work))


def a_tensor_of_the_host(x: Tensor) -> None:
    x + torch.ones(4)


def mixed_dtypes(x: Tensor) -> None:
    torch.mm(x[None].half(), x[:, None])


def a_stream_that_does_not_wait(x: Tensor) -> None:
    y = x * 2
    with torch.cuda.stream(torch.cuda.Stream()):
        y.add_(1)


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (a_tensor_of_the_host, "of the host among others"),
        (mixed_dtypes, "mixed dtypes"),
        (a_stream_that_does_not_wait, "may still write"),
    ],
)
def test_a_wrong_call_is_seen(work: Callable[[Tensor], None], text: str) -> None:
    assert any(text in problem for problem in problems(lambda: work(torch.ones(4, device="cuda"))))


def test_waits_are_counted_where_they_are() -> None:
    with pretended_gpu() as gpu:
        x = torch.ones(4, device="cuda")
        bool(x.sum() > 0)
        x[x > 0]
        x.cpu()
        x.copy_(torch.ones(4), non_blocking=True)  # not pinned
        x.copy_(torch.ones(4).pin_memory(), non_blocking=True)
    assert sorted(what for what, _ in gpu.record.waits) == [
        "D2H pageable blocking",
        "H2D pageable async",
        "_local_scalar_dense",
        "index",
    ]


class WrongModule(PretendedModule):
    """A kernel that does its work twice."""

    def launch(self, name: str, grid: Any, arguments: Any) -> None:
        super().launch(name, grid, arguments)
        super().launch(name, grid, arguments)


def test_a_kernel_that_computes_wrongly_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    with pretended_gpu(modules=WrongModule) as gpu:
        assert token_rows.find(torch.randn(6, 64, device="cuda")) is None
    assert "is wrong" in caplog.text
    assert gpu.record.launches


def test_a_kernel_that_leaves_its_memory_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real = grids.grid_for

    def too_many(shape: Any, *others: int) -> Any:
        return real(torch.Size((shape[0] + 1, shape[1])), *others)

    with pretended_gpu():
        rows()
        monkeypatch.setattr(grids, "grid_for", too_many)
        with pytest.raises(AssertionError, match="beyond its memory"):
            rows()
