import gc
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from engine.core.geometry import spread_indices
from engine.ops.transfer.weight_streaming import StreamEvent, WeightStream

WIDTH = 8


class Block(nn.Module):
    """Some parameters, a text branch, and a buffer in a narrow format, as quantised layers have."""

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
    blocks: Sequence[nn.Module] | nn.ModuleList, x: Tensor, stream: WeightStream | None = None
) -> Tensor:
    for index, block in enumerate(blocks):
        with stream.block(index) if stream else nullcontext():
            x = block(x)
    return x


def on_host(blocks: nn.ModuleList) -> list[tuple[int, torch.dtype]]:
    """Addresses and types of everything."""
    return [(value.data_ptr(), value.dtype) for value in blocks.state_dict().values()]


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 7),
    options=st.fixed_dictionaries(
        {
            "resident": st.integers(0, 8),
            "buffers": st.integers(1, 4),
            "pin_bytes": st.sampled_from([0, 3000, 10**6]),
            "keep_on_host": st.sampled_from([None, lambda name: name.startswith("txt.")]),
        }
    ),
    forwards=st.integers(1, 3),
    releases=st.booleans(),
)
def test_streamed_equals_resident_bit_for_bit(
    count: int, options: dict[str, Any], forwards: int, releases: bool
) -> None:
    x, blocks = torch.randn(3, WIDTH), chain(count)
    wanted = run(chain(count), x)
    with WeightStream(blocks, device="cpu", **options) as stream:
        assert stream.pinned_bytes == 0  # nothing to pin for a processor
        for _ in range(forwards):
            assert torch.equal(run(blocks, x, stream), wanted)
            if releases:
                stream.release()
    assert torch.equal(run(blocks, x), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_values_are_converted_while_copied_and_codes_are_not(dtype: torch.dtype) -> None:
    x = torch.randn(3, WIDTH).to(dtype)
    blocks, wanted_blocks = chain().half(), chain().half()  # as a file in half precision
    for block in (*blocks, *wanted_blocks):
        block.scale = block.scale.float()  # scales are buffers
    for block in wanted_blocks:
        block.vid.to(dtype), block.txt.to(dtype)
    wanted = run(wanted_blocks, x)
    stream = WeightStream(blocks, device="cpu", resident=2, dtype=dtype)
    assert torch.equal(run(blocks, x, stream), wanted)
    with stream.block(0):
        assert blocks[0].vid.weight.dtype == dtype
        assert blocks[0].codes.dtype == torch.uint8
        assert blocks[0].scale.dtype == torch.float32


def test_nothing_is_copied_back_and_the_host_keeps_its_own() -> None:
    blocks = chain()
    before = on_host(blocks)
    values = {name: value.clone() for name, value in blocks.state_dict().items()}
    with WeightStream(blocks, device="cpu", resident=0) as stream:
        for index in (4, 1, 5, 0, 0, 2):  # in any order
            with stream.block(index):
                assert torch.equal(blocks[index].vid.weight, values[f"{index}.vid.weight"])
                blocks[index].vid.weight.zero_()
        run(blocks, torch.randn(1, WIDTH), stream)
        assert on_host(blocks) == before
    assert stream.buffer_bytes == stream.pinned_bytes == 0
    assert on_host(blocks) == before
    for name, value in blocks.state_dict().items():
        assert torch.equal(value, values[name])
    with pytest.raises(IndexError, match="block 0 of 0"), stream.block(0):
        pass


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


def test_what_fits_is_copied_once(events: list[StreamEvent]) -> None:
    blocks = chain(2)
    stream = WeightStream(blocks, device="cpu", resident=0, buffers=3, trace=events.append)
    for _ in range(3):
        run(blocks, torch.randn(1, WIDTH), stream)
    assert [event.block for event in events if event.what == "copy"] == [0, 1]
    events.clear()
    blocks = chain(6)
    stream = WeightStream(blocks, device="cpu", resident=3, trace=events.append)
    assert stream.streamed == (0, 2, 4)
    for _ in range(2):
        run(blocks, torch.randn(1, WIDTH), stream)
    assert {event.block for event in events} == {0, 2, 4}
    stream = WeightStream(blocks, device="cpu", resident=7)
    assert stream.streamed == ()
    assert stream.buffer_bytes == 0


def test_only_the_text_of_spread_indices_comes_and_goes() -> None:
    blocks = chain(4)
    text = {"keep_on_host": lambda name: name.startswith("txt.")}
    stream = WeightStream(blocks, device="cpu", resident=4, **text)
    assert stream.streamed == (0, 1, 2, 3)
    before = [part.weight.data_ptr() for part in (blocks[1].vid, blocks[1].txt)]
    with stream.block(1):
        assert blocks[1].vid.weight.data_ptr() == before[0]
        assert blocks[1].txt.weight.data_ptr() != before[1]
    assert blocks[1].txt.weight.data_ptr() == before[1]


def test_an_error_inside_leaves_everything_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, x = chain(), torch.randn(2, WIDTH)
    wanted = run(chain(), x)
    stream = WeightStream(blocks, device="cpu", resident=1)
    before = on_host(blocks)
    with pytest.raises(RuntimeError, match="cancelled"), stream.block(3):
        raise RuntimeError("cancelled")
    assert on_host(blocks) == before
    assert torch.equal(run(blocks, x, stream), wanted)
    with pytest.raises(RuntimeError, match="mat1"):
        run(blocks, torch.randn(2, WIDTH + 1), stream)
    assert torch.equal(run(blocks, x, stream), wanted)
    copy, results = stream._buffers.copy, iter([None, None, torch.OutOfMemoryError("no memory")])

    def failing(*given: object) -> None:
        if error := next(results, None):
            raise error
        copy(*given)

    monkeypatch.setattr(stream._buffers, "copy", failing)
    with pytest.raises(torch.OutOfMemoryError):
        run(blocks, x, stream)
    assert torch.equal(run(blocks, x, stream), wanted)  # the copy is tried again


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
    blocks, x = chain(), torch.randn(2, WIDTH)
    wanted = run(chain(), x)
    stream = WeightStream(blocks, device="cpu", resident=2, trace=events.append).attach(blocks)
    for _ in range(2):
        assert torch.equal(run(blocks, x), wanted)
    assert sum(event.what == "begin" for event in events) == 2 * 4
    with pytest.raises(RuntimeError, match="mat1"):
        run(blocks, torch.randn(2, WIDTH + 1))
    assert torch.equal(run(blocks, x), wanted)
    stream.close()
    count = len(events)
    assert torch.equal(run(blocks, x), wanted)
    assert len(events) == count


def test_buffers_are_as_large_as_the_largest_block() -> None:
    blocks = chain(4)
    sizes = [
        sum(-(-value.nbytes // 256) * 256 for value in block.state_dict().values())
        for block in blocks
    ]
    stream = WeightStream(blocks, device="cpu", resident=0, buffers=3)
    assert stream.buffer_bytes == 3 * max(sizes)

    def there() -> int:
        return sum(slot.flat.nbytes for slot in stream._buffers.slots)

    assert there() == 0
    run(blocks, torch.randn(1, WIDTH), stream)
    assert there() == stream.buffer_bytes
    stream.release()
    assert there() == 0


def test_a_closed_stream_holds_none_of_its_buffers() -> None:
    blocks = chain()
    stream = WeightStream(blocks, device="cpu", resident=0, buffers=2)
    run(blocks, torch.randn(1, WIDTH), stream)
    views = [
        view for one in stream._blocks.values() for some in one.views.values() for view in some
    ]
    held = [weakref.ref(view) for view in views]
    del views
    stream.close()
    gc.collect()
    assert held
    assert not any(view() is not None for view in held)


def test_streams_made_in_inference_mode_work_outside() -> None:
    blocks = chain()
    with torch.inference_mode():
        stream = WeightStream(blocks, device="cpu", resident=0)
        wanted = run(blocks, torch.ones(1, WIDTH), stream)
    assert torch.equal(run(blocks, torch.ones(1, WIDTH), stream), wanted)


@given(count=st.integers(1, 40), resident=st.integers(0, 50))
@settings(max_examples=50, deadline=None)
def test_spread_indices_are_spread_evenly(count: int, resident: int) -> None:
    stay = sorted(spread_indices(count, resident))
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
