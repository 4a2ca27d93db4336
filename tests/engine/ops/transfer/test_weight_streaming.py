"""Streamed weights give the bits of resident ones, and the schedule is what it says."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from engine.ops.transfer.residency import resident_blocks
from engine.ops.transfer.weight_streaming import StreamEvent, WeightStream

WIDTH = 8


class Block(nn.Module):
    """Some parameters, a text branch, and a buffer in a narrow format, as quantised twins have."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.vid = nn.Linear(WIDTH, WIDTH + index % 3)
        self.txt = nn.Linear(WIDTH + index % 3, WIDTH)
        self.register_buffer("codes", torch.arange(WIDTH, dtype=torch.uint8) + index)
        self.register_buffer("scale", torch.rand(1))

    def forward(self, x: Tensor) -> Tensor:
        assert isinstance(self.codes, Tensor)
        assert isinstance(self.scale, Tensor)
        y = self.txt(torch.tanh(self.vid(x)))
        return x + y * self.codes.to(x.dtype) * self.scale.to(x.dtype)


@pytest.fixture
def events() -> list[StreamEvent]:
    return []


def chain(count: int = 6) -> nn.ModuleList:
    torch.manual_seed(3)
    return nn.ModuleList(Block(index) for index in range(count)).requires_grad_(False)


def run(
    blocks: Sequence[nn.Module] | nn.ModuleList, x: Tensor, stream: WeightStream | None
) -> Tensor:
    for index, block in enumerate(blocks):
        if stream is None:
            x = block(x)
        else:
            with stream.block(index):
                x = block(x)
    return x


def on_host(blocks: nn.ModuleList) -> list[tuple[int, torch.dtype]]:
    """Addresses and types of everything."""
    return [(value.data_ptr(), value.dtype) for value in blocks.state_dict().values()]


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 7),
    buffers=st.integers(1, 4),
    resident=st.integers(0, 8),
    pin_bytes=st.sampled_from([0, 3000, 10**6]),
    text_on_host=st.booleans(),
    forwards=st.integers(1, 3),
)
def test_streamed_equals_resident_bit_for_bit(
    count: int, buffers: int, resident: int, pin_bytes: int, text_on_host: bool, forwards: int
) -> None:
    x = torch.randn(3, WIDTH)
    wanted = run(chain(count), x, None)
    blocks = chain(count)
    with WeightStream(
        blocks,
        device="cpu",
        resident=resident,
        buffers=buffers,
        pin_bytes=pin_bytes,
        keep_on_host=(lambda name: name.startswith("txt.")) if text_on_host else None,
    ) as stream:
        for _ in range(forwards):
            assert torch.equal(run(blocks, x, stream), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_values_are_converted_while_copied_and_codes_are_not(dtype: torch.dtype) -> None:
    x = torch.randn(3, WIDTH).to(dtype)
    wanted_blocks = chain().half()  # as a file in half precision; scales are buffers
    for block in wanted_blocks:
        block.scale = block.scale.float()
        block.vid.to(dtype), block.txt.to(dtype)
    wanted = run(wanted_blocks, x, None)
    blocks = chain().half()
    for block in blocks:
        block.scale = block.scale.float()
    stream = WeightStream(blocks, device="cpu", resident=2, dtype=dtype)
    assert torch.equal(run(blocks, x, stream), wanted)
    with stream.block(0):
        assert blocks[0].vid.weight.dtype == dtype
        assert blocks[0].codes.dtype == torch.uint8
        assert blocks[0].scale.dtype == torch.float32


def test_nothing_is_copied_back_and_the_host_keeps_its_own() -> None:
    blocks = chain()
    before = on_host(blocks)
    numbers = {name: value.clone() for name, value in blocks.state_dict().items()}
    stream = WeightStream(blocks, device="cpu", resident=0)
    with stream.block(2):
        blocks[2].vid.weight.zero_()
    run(blocks, torch.randn(1, WIDTH), stream)
    assert on_host(blocks) == before
    for name, value in blocks.state_dict().items():
        assert torch.equal(value, numbers[name])


@pytest.mark.parametrize("buffers", [1, 2, 3])
def test_the_schedule(buffers: int, events: list[StreamEvent]) -> None:
    """The next copy is issued before work ends; a buffer is written after its work ended."""
    blocks = chain(6)
    stream = WeightStream(blocks, device="cpu", resident=0, buffers=buffers, trace=events.append)
    for _ in range(2):
        run(blocks, torch.randn(1, WIDTH), stream)
    times = [event.at for event in events]
    assert times == sorted(times)
    held: dict[int, int] = {}
    working: set[int] = set()
    copied: list[int] = []
    for event in events:
        match event.what:
            case "copy":
                assert event.slot not in working
                held[event.slot] = event.block
                copied.append(event.block)
                assert len(held) <= buffers
            case "begin":
                assert held[event.slot] == event.block
                working.add(event.slot)
                if buffers > 1:
                    assert (event.block + 1) % 6 in held.values()
            case "end":
                working.remove(event.slot)
    ahead = min(buffers, 6)
    assert copied == [index % 6 for index in range(12 + ahead)]  # the first ones for next time


def test_as_many_buffers_as_blocks_copy_once(events: list[StreamEvent]) -> None:
    blocks = chain(2)
    stream = WeightStream(blocks, device="cpu", resident=0, buffers=3, trace=events.append)
    for _ in range(3):
        run(blocks, torch.randn(1, WIDTH), stream)
    assert [event.block for event in events if event.what == "copy"] == [0, 1]


def test_resident_blocks_are_never_copied_again(events: list[StreamEvent]) -> None:
    blocks = chain(6)
    stream = WeightStream(blocks, device="cpu", resident=3, trace=events.append)
    assert stream.streamed == (0, 2, 4)
    for _ in range(2):
        run(blocks, torch.randn(1, WIDTH), stream)
    assert {event.block for event in events} == {0, 2, 4}


def test_all_resident_takes_no_buffer() -> None:
    blocks = chain(3)
    stream = WeightStream(blocks, device="cpu", resident=5)
    assert stream.streamed == ()
    assert stream.buffer_bytes == 0
    run(blocks, torch.randn(1, WIDTH), stream)


def test_only_the_text_of_resident_blocks_comes_and_goes() -> None:
    blocks = chain(4)
    weights = [block.vid.weight.data_ptr() for block in blocks]
    text = [block.txt.weight.data_ptr() for block in blocks]
    stream = WeightStream(
        blocks, device="cpu", resident=4, keep_on_host=lambda name: name.startswith("txt.")
    )
    assert stream.streamed == (0, 1, 2, 3)
    with stream.block(1):
        assert blocks[1].vid.weight.data_ptr() == weights[1]
        assert blocks[1].txt.weight.data_ptr() != text[1]
    assert blocks[1].txt.weight.data_ptr() == text[1]


def test_an_error_inside_leaves_everything_usable() -> None:
    blocks = chain()
    x = torch.randn(2, WIDTH)
    wanted = run(chain(), x, None)
    stream = WeightStream(blocks, device="cpu", resident=1)
    before = on_host(blocks)
    with pytest.raises(RuntimeError, match="cancelled"), stream.block(3):
        raise RuntimeError("cancelled")
    assert on_host(blocks) == before
    assert torch.equal(run(blocks, x, stream), wanted)
    with pytest.raises(RuntimeError, match="mat1"):
        run(blocks, torch.randn(2, WIDTH + 1), stream)
    assert torch.equal(run(blocks, x, stream), wanted)


def test_a_copy_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = chain()
    x = torch.randn(2, WIDTH)
    wanted = run(chain(), x, None)
    stream = WeightStream(blocks, device="cpu", resident=0)
    buffers = stream._buffers
    copy, calls = buffers.copy, iter(range(100))

    def failing(block: object, slot: object) -> None:
        if next(calls) == 3:
            raise torch.OutOfMemoryError("no memory")
        copy(block, slot)

    monkeypatch.setattr(buffers, "copy", failing)
    with pytest.raises(torch.OutOfMemoryError):
        run(blocks, x, stream)
    assert torch.equal(run(blocks, x, stream), wanted)


def test_blocks_in_any_order() -> None:
    blocks = chain()
    stream = WeightStream(blocks, device="cpu", resident=0)
    for index in (4, 1, 5, 0, 0):
        wanted = blocks[index].vid.weight.clone()
        with stream.block(index):
            assert torch.equal(blocks[index].vid.weight, wanted)


def test_more_blocks_at_a_time_than_buffers_are_refused() -> None:
    stream = WeightStream(chain(), device="cpu", resident=0, buffers=2)
    with stream.block(0), stream.block(1):
        with pytest.raises(ValueError, match="more blocks at a time"), stream.block(2):
            pass
        with pytest.raises(ValueError, match="block 1 twice"), stream.block(1):
            pass
    with stream.block(2):
        pass


def test_attached_blocks_come_and_go_by_themselves(events: list[StreamEvent]) -> None:
    blocks = chain()
    x = torch.randn(2, WIDTH)
    wanted = run(chain(), x, None)
    stream = WeightStream(blocks, device="cpu", resident=2, trace=events.append).attach(blocks)
    for _ in range(2):
        assert torch.equal(run(blocks, x, None), wanted)
    assert sum(event.what == "begin" for event in events) == 2 * 4
    with pytest.raises(RuntimeError, match="mat1"):
        run(blocks, torch.randn(2, WIDTH + 1), None)
    assert torch.equal(run(blocks, x, None), wanted)
    stream.close()
    count = len(events)
    assert torch.equal(run(blocks, x, None), wanted)
    assert len(events) == count


def test_a_closed_stream_gives_everything_back() -> None:
    blocks = chain()
    before = on_host(blocks)
    stream = WeightStream(blocks, device="cpu", resident=0)
    with stream, stream.block(0):
        pass
    assert on_host(blocks) == before
    assert stream.buffer_bytes == stream.pinned_bytes == 0
    with pytest.raises(IndexError, match="block 0 of 0"), stream.block(0):
        pass


def test_values_survive_in_pinned_memory() -> None:
    blocks = chain()
    numbers = {name: value.clone() for name, value in blocks.state_dict().items()}
    with WeightStream(blocks, device="cpu", resident=1, pin_bytes=10**6) as stream:
        assert stream.pinned_bytes == 0  # nothing to pin for a processor
    for name, value in blocks.state_dict().items():
        assert torch.equal(value, numbers[name])


def test_buffers_are_as_large_as_the_largest_block() -> None:
    blocks = chain(4)
    largest = max(
        sum(-(-value.nbytes // 256) * 256 for value in block.state_dict().values())
        for block in blocks
    )
    stream = WeightStream(blocks, device="cpu", resident=0, buffers=3)
    assert stream.buffer_bytes == 3 * largest


def test_streams_made_in_inference_mode_work_outside() -> None:
    blocks = chain()
    with torch.inference_mode():
        stream = WeightStream(blocks, device="cpu", resident=0)
        wanted = run(blocks, torch.ones(1, WIDTH), stream)
    assert torch.equal(run(blocks, torch.ones(1, WIDTH), stream), wanted)


@given(count=st.integers(1, 40), resident=st.integers(0, 50))
@settings(max_examples=50, deadline=None)
def test_resident_blocks_are_spread_evenly(count: int, resident: int) -> None:
    stay = sorted(resident_blocks(count, resident))
    assert len(stay) == min(count, resident)
    assert all(0 <= index < count for index in stay)
    if len(stay) > 1:
        gaps = [after - before for before, after in pairwise(stay)]
        assert max(gaps) - min(gaps) <= 1


def test_impossible_arguments() -> None:
    for options in ({"resident": -1}, {"resident": 0, "buffers": 0}):
        with pytest.raises(ValueError, match="buffers"):
            WeightStream(chain(1), device="cpu", **options)
    with pytest.raises(IndexError), WeightStream(chain(1), device="cpu", resident=0).block(1):
        pass
