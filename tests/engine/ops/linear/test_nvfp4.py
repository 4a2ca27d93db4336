import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ops.linear.formats import working
from engine.ops.linear.nvfp4 import GROUP, NvFp4Product, into_tiles, out_of_tiles, pack, unpack
from tests.helpers.tensors import relative_rms

GRID = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


def test_values_of_the_format_come_back_exactly() -> None:
    x = torch.cat((GRID, -GRID)).repeat(4, 2)
    scaled = x * torch.tensor([448.0, 1.0, 2.0**-6, 0.0])[:, None]
    assert torch.equal(unpack(pack(scaled)), scaled)
    assert torch.equal(unpack(pack(torch.zeros(2, 32))), torch.zeros(2, 32))


def test_each_number_goes_to_the_nearest() -> None:
    x = torch.linspace(-6, 6, 4 * GROUP).view(1, -1)
    x[0, ::GROUP] = 6.0  # every group has the same scale
    x = torch.cat((x, torch.full_like(x, 448 * 6)))  # and the whole the scale one
    found = unpack(pack(x))[0]
    grid = torch.cat((GRID, -GRID))
    nearest = (x[0][:, None] - grid).abs().min(1).values
    torch.testing.assert_close((found - x[0]).abs(), nearest, rtol=0, atol=1e-6)


def test_the_first_of_two_values_is_in_the_low_bits() -> None:
    x = torch.zeros(1, 32)
    x[0, 0], x[0, 1] = 6.0, -3.0
    assert int(pack(x).codes[0, 0]) == 0b1101_0111


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 300), columns=st.integers(1, 11))
def test_tiles_of_scales_can_be_read_back(rows: int, columns: int) -> None:
    scales = torch.arange(rows * columns).remainder(251).to(torch.uint8).view(rows, columns)
    flat = into_tiles(scales.view(torch.float8_e4m3fn))
    across = -(-columns // 4)
    assert flat.shape == (-(-rows // 128) * 128 * across * 4,)
    found = out_of_tiles(flat, rows, columns)
    assert torch.equal(found.view(torch.uint8), scales)
    row, column = rows - 1, columns - 1  # where the description of the layout says it is
    place = ((row // 128) * across + column // 4) * 512
    place += (row % 32) * 16 + (row % 128) // 32 * 4 + column % 4
    assert int(flat.view(torch.uint8)[place]) == int(scales[row, column])


def test_a_weight_is_as_near_as_the_format_allows() -> None:
    for size in (1e-12, 1.0, 1e12):
        weight = torch.randn(64, 128) * size
        layer = NvFp4Product(128, 64, bias=False)
        layer.take(weight)
        assert 0.05 < relative_rms(layer.dense_weight(torch.float64), weight) < 0.12
        bits = sum(t.nbytes for t in layer.state_dict().values()) * 8 / weight.numel()
        assert bits < 5.1  # 4, a scale for 16, rows filled up to 128


def test_the_processor_refuses_the_product_and_never_widens_in_silence() -> None:
    layer = NvFp4Product(64, 32, bias=False)
    layer.take(torch.randn(32, 64))
    with pytest.raises((RuntimeError, ValueError)):
        layer(torch.randn(2, 64))
    assert "nvfp4" not in working("cpu")


def test_torch_accepts_shapes_and_scales_of_the_product() -> None:
    layer = NvFp4Product(512, 96, bias=True).to("meta")
    assert layer(torch.empty(2, 150, 512, device="meta")).shape == (2, 150, 96)


@pytest.mark.gpu
def test_a_gpu_multiplies_the_same_values() -> None:
    if "nvfp4" not in working("cuda"):
        pytest.skip("this GPU has no nvfp4")
    layer = NvFp4Product(512, 256, bias=True)
    layer.take(torch.randn(256, 512))
    layer.bias.data.normal_()
    x = torch.randn(3000, 512)
    wanted = F.linear(unpack(pack(x)), layer.dense_weight(torch.float32), layer.bias)
    assert relative_rms(layer.cuda()(x.cuda()).cpu(), wanted) < 5e-3
