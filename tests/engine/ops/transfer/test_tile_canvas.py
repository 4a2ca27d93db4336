from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import CapacityError, NumericOverflow
from engine.core.geometry import Box, Size
from engine.ops.transfer.tile_canvas import TileSink, quantised
from engine.tiling.blend import tile_weights
from engine.tiling.grid import tile_grid
from tests.helpers.tensors import FloatSink


def fill(sinks, tiles, canvas: Size, boxes: list[Box], blend: int, step: int = 2) -> None:
    """Give each sink every tile, `step` frames at a time."""
    for tile, box, share in zip(
        tiles, boxes, tile_weights(canvas, boxes, blend=blend), strict=True
    ):
        window = share.window
        x, y = window.x - box.x, window.y - box.y
        inside = tile[..., y : y + window.height, x : x + window.width]
        for start in range(0, len(tile), step):
            for sink in sinks:
                sink.add(inside[start : start + step], window, start, share.weight())
        for sink in sinks:
            sink.check()


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1000),
    width=st.integers(20, 70),
    height=st.integers(20, 50),
    blend=st.integers(0, 8),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16]),
)
def test_tiles_in_16_bits_are_the_exact_blend_but_for_half_a_code_a_tile(
    seed, width, height, blend, dtype
):
    torch.manual_seed(seed)
    canvas = Size(width, height)
    boxes = tile_grid(canvas, Size(26, 30), blend + 2)
    tiles = [(torch.rand(3, 3, b.height, b.width) * 2.4 - 1.2).to(dtype) for b in boxes]
    exact, deep = FloatSink(3, canvas), TileSink(3, canvas)
    fill([deep], tiles, canvas, boxes, blend)
    unit = [(tile.double() * 0.5 + 0.5).clamp(0, 1) for tile in tiles]
    fill([exact], unit, canvas, boxes, blend)
    expected = exact.result().permute(0, 2, 3, 1) * 65535
    contributions = torch.zeros(height, width)
    for share in tile_weights(canvas, boxes, blend=blend):
        box = share.window
        contributions[box.y : box.bottom, box.x : box.right] += 1
    error = (deep.result().to(torch.float64) - expected).abs()
    assert (error <= 0.52 * contributions[None, ..., None]).all()


def test_white_never_runs_over_and_black_stays_black():
    canvas = Size(61, 43)
    boxes = tile_grid(canvas, Size(24, 22), 9)
    codes = {1.0: 65535, 3.0: 65535, -1.0: 0, -9.0: 0}
    for (value, code), blend in product(codes.items(), (0, 1, 5, 8)):
        sink = TileSink(1, canvas)
        tiles = [torch.full((1, 3, b.height, b.width), value) for b in boxes]
        fill([sink], tiles, canvas, boxes, blend)
        assert sink.result().dtype == torch.uint16
        assert (sink.result().int() == code).all()


def test_the_sum_of_rounded_tiles_is_at_most_65535_for_values_just_below_white():
    canvas = Size(64, 40)
    boxes = tile_grid(canvas, Size(22, 22), 10)
    for value in (1.0, 1 - 2**-24, 1 - 2**-17, 0.99999, 1 - 1e-5):
        sink = TileSink(1, canvas)
        tile = torch.full((1, 3, 22, 22), value * 2 - 1, dtype=torch.float64)
        fill([sink], [tile] * len(boxes), canvas, boxes, 10)
        assert sink.result().int().min() > 65530


def test_a_whole_frame_is_rounded_once_and_keeps_its_values():
    frame = torch.linspace(-1.1, 1.1, 2 * 3 * 5 * 7).view(2, 3, 5, 7)
    sink = TileSink(2, Size(7, 5))
    sink.add(frame, Box(0, 0, 7, 5), 0)
    expected = (frame * 0.5 + 0.5).clamp(0, 1).mul(65535).round().permute(0, 2, 3, 1)
    assert torch.equal(sink.result().int(), expected.int())
    part = torch.full((1, 3, 2, 2), 0.3).to(memory_format=torch.channels_last)
    quantised(part, 65535)
    assert torch.equal(part, torch.full((1, 3, 2, 2), 0.3))


def test_nan_and_infinity_are_an_error_that_the_planner_understands():
    bads = (float("nan"), float("inf"), float("-inf"))
    for bad, dtype in product(bads, (torch.float16, torch.bfloat16, torch.float32)):
        sink = TileSink(2, Size(4, 4))
        part = torch.zeros(1, 3, 4, 4, dtype=dtype)
        sink.add(part, Box(0, 0, 4, 4), 1)
        sink.check()
        part[0, 2, 3, 3] = bad
        sink.add(part, Box(0, 0, 4, 4), 0)
        sink.add(torch.zeros_like(part), Box(0, 0, 4, 4), 1)
        with pytest.raises(NumericOverflow, match=str(dtype).removeprefix("torch.")) as caught:
            sink.check()
        assert isinstance(caught.value, CapacityError)
        assert caught.value.hint
        sink.add(part, Box(0, 0, 4, 4), 0)
        with pytest.raises(NumericOverflow):
            sink.result()
